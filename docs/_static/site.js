// Scrolls the sidebar to the entry of the page.
const current = document.querySelector(".sidebar-tree .current-page");
const pane = current?.closest(".sidebar-scroll");
if (pane) {
  pane.scrollTop += current.getBoundingClientRect().top - pane.getBoundingClientRect().top - pane.clientHeight / 3;
}

// Marks tables of sentences, whose cells get the head of their column: site.css stacks them on a phone.
for (const table of document.querySelectorAll("article table.docutils")) {
  const heads = Array.from(table.querySelectorAll("thead th"), (head) => head.textContent.trim());
  const rows = Array.from(table.tBodies[0].rows, (row) => Array.from(row.cells));
  const letters = (column) => rows.reduce((sum, cells) => sum + cells[column].textContent.length, 0);
  if (heads.length < 3 || Math.max(...heads.map((_, column) => letters(column))) < 30 * rows.length) continue;
  table.classList.add("prose");
  rows.forEach((cells) => cells.forEach((cell, column) => {
    if (cell.textContent.trim()) cell.dataset.head = heads[column];
  }));
}
