// Scrolls the sidebar to the entry of the page.
const current = document.querySelector(".sidebar-tree .current-page");
const pane = current?.closest(".sidebar-scroll");
if (pane) {
  pane.scrollTop += current.getBoundingClientRect().top - pane.getBoundingClientRect().top - pane.clientHeight / 3;
}
