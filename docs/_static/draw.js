// The demo of the site's first page: classifies a drawn digit, and shows lambda maps of it.

const CELLS = 8; // an image of scikit-learn's digits is 8 x 8 cells, of levels from 0 to 16
const LEVELS = 16;
const SIZE = 32; // pixels of the network's images
const PEN = 1.1; // thickness of a stroke in cells, whatever the size of the drawing
const WIDEST = 7; // cells; digits of the data set fill the height, and hardly ever the width
const SMALLEST = 0.03; // part of the paper; larger drawings fill the image
const FINE = 8; // pixels of a cell before they are averaged
const LAYER = "c5_block1_2_lambda";
const EXAMPLE = [
  [[0.3, 0.2], [0.7, 0.2], [0.5, 0.45], [0.68, 0.55], [0.7, 0.7], [0.55, 0.82], [0.3, 0.75]],
];

// Levels of a drawing, row by row: it fills the image as the digits of the data set do.
// Strokes are lists of points [x, y] in a square of 1 x 1.
export function toLevels(strokes) {
  const pen = canvasOf(CELLS * FINE);
  const [left, right, top, bottom] = [0, 1].flatMap((axis) => {
    const values = strokes.flat().map((point) => point[axis]);
    return [Math.min(...values), Math.max(...values)];
  });
  const scale = Math.min(
    (CELLS - PEN) / Math.max(bottom - top, SMALLEST), // a dot stays small
    (WIDEST - PEN) / Math.max(right - left, SMALLEST),
  );
  pen.scale(FINE, FINE);
  pen.translate(CELLS / 2, CELLS / 2);
  drawStrokes(pen, strokes.map((stroke) => stroke.map(([x, y]) => [
    (x - (left + right) / 2) * scale,
    (y - (top + bottom) / 2) * scale,
  ])), PEN);
  const { data } = pen.getImageData(0, 0, CELLS * FINE, CELLS * FINE);
  const sums = new Float64Array(CELLS * CELLS);
  for (let i = 0; i < data.length / 4; i++) {
    const row = Math.floor(i / (CELLS * FINE) / FINE);
    const column = Math.floor((i % (CELLS * FINE)) / FINE);
    sums[row * CELLS + column] += data[4 * i + 3] / 255; // how much of a pixel is covered
  }
  return Array.from(sums, (sum) => Math.round((sum / FINE ** 2) * LEVELS));
}

// The network's image, `(1, 32, 32, 3)` in [0, 255]: levels in 8 bits, resized bilinearly.
export function toImage(levels) {
  const pixels = levels.map((level) => Math.round((level * 255) / LEVELS));
  const image = new Float32Array(SIZE * SIZE * 3);
  const around = Array.from({ length: SIZE }, (_, i) => {
    const place = ((i + 0.5) * CELLS) / SIZE - 0.5;
    const low = Math.floor(place);
    const inside = (cell) => Math.min(Math.max(cell, 0), CELLS - 1);
    return [inside(low), inside(low + 1), place - low];
  });
  around.forEach(([top, bottom, down], row) => {
    around.forEach(([left, right, along], column) => {
      const between = (i) =>
        pixels[i * CELLS + left] * (1 - along) + pixels[i * CELLS + right] * along;
      const value = between(top) * (1 - down) + between(bottom) * down;
      image.fill(value, 3 * (row * SIZE + column), 3 * (row * SIZE + column + 1));
    });
  });
  return image;
}

// Loads runtime and network; returns a function from levels to probabilities, maps and time.
export async function load() {
  const ort = await import("./ort.wasm.min.mjs");
  ort.env.wasm.numThreads = 1; // more would need a site with special headers
  const address = new URL("digits.onnx", import.meta.url).href;
  const session = await ort.InferenceSession.create(address, { executionProviders: ["wasm"] });
  const classify = async (levels) => {
    const images = new ort.Tensor("float32", toImage(levels), [1, SIZE, SIZE, 3]);
    const start = performance.now();
    const outputs = await session.run({ images });
    const milliseconds = performance.now() - start;
    const [probabilities, content, position] = [
      "probabilities", `${LAYER}_content`, `${LAYER}_position`,
    ].map((name) => Array.from(outputs[name].data));
    return { probabilities, content, position, milliseconds };
  };
  await classify(new Array(CELLS * CELLS).fill(0)); // the first image takes longer
  return classify;
}

// Mean of all heads of the maps `(8, 8, heads, 8, 8)` at a query.
export function meanMap(maps, row, column) {
  const cells = CELLS * CELLS;
  const heads = maps.length / cells ** 2;
  const begin = (row * CELLS + column) * heads * cells;
  return Array.from({ length: cells }, (_, cell) => {
    let sum = 0;
    for (let head = 0; head < heads; head++) sum += maps[begin + head * cells + cell];
    return sum / heads;
  });
}

function canvasOf(size) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  return canvas.getContext("2d", { willReadFrequently: true });
}

function drawStrokes(pen, strokes, width) {
  pen.lineCap = pen.lineJoin = "round";
  pen.lineWidth = width;
  pen.strokeStyle = "white";
  pen.beginPath();
  for (const stroke of strokes) {
    pen.moveTo(...stroke[0]);
    for (const point of stroke) pen.lineTo(...point);
  }
  pen.stroke();
}

// Draws one color for each cell, and a frame around the query.
function drawCells(canvas, colors, query) {
  const pen = canvas.getContext("2d");
  const side = canvas.width / CELLS;
  pen.clearRect(0, 0, canvas.width, canvas.height);
  colors.forEach((color, cell) => {
    pen.fillStyle = color;
    pen.fillRect((cell % CELLS) * side, Math.floor(cell / CELLS) * side, side, side);
  });
  pen.strokeStyle = "gold";
  pen.lineWidth = 3;
  pen.strokeRect(query.column * side + 1.5, query.row * side + 1.5, side - 3, side - 3);
}

// Red adds a value, blue subtracts it, black leaves it out, as in zoo.demo.
function signed(weights) {
  const largest = Math.max(...weights.map(Math.abs)) || 1;
  return weights.map((weight) => {
    const [red, green, blue] = weight > 0 ? [255, 90, 70] : [80, 150, 255];
    const part = Math.abs(weight) / largest;
    return `rgb(${red * part}, ${green * part}, ${blue * part})`;
  });
}

function start(root) {
  const find = (name) => root.querySelector(`[data-draw="${name}"]`);
  const [paper, status, view, where] = ["paper", "status", "view", "where"].map(find);
  const bars = Array.from({ length: 10 }, (_, digit) => {
    const bar = document.createElement("li");
    bar.innerHTML = `<b>${digit}</b><span class="bar"><i></i></span><span class="percent"></span>`;
    find("bars").append(bar);
    return bar;
  });
  const query = { row: 4, column: 4 };
  let strokes = [];
  let loading = null;
  let result = null;
  let [isRunning, hasChanged] = [false, false];

  function showMaps() {
    where.textContent = `row ${query.row + 1}, column ${query.column + 1}`;
    const levels = strokes.length ? toLevels(strokes) : new Array(CELLS * CELLS).fill(0);
    drawCells(view, levels.map((level) => `rgb(${Array(3).fill((level * 255) / LEVELS)})`), query);
    for (const kind of ["content", "position"]) {
      const weights = result ? meanMap(result[kind], query.row, query.column) : [];
      drawCells(find(kind), signed(weights), query);
    }
  }

  function show() {
    const pen = paper.getContext("2d");
    pen.clearRect(0, 0, paper.width, paper.height);
    drawStrokes(pen, strokes.map((stroke) => stroke.map((point) => point.map((x) => x * paper.width))),
      paper.width / 14);
    const best = result ? result.probabilities.indexOf(Math.max(...result.probabilities)) : -1;
    bars.forEach((bar, digit) => {
      const percent = result ? 100 * result.probabilities[digit] : 0;
      bar.classList.toggle("best", digit === best);
      bar.querySelector("i").style.width = `${percent}%`;
      bar.querySelector(".percent").textContent = `${Math.round(percent)} %`;
    });
    if (result) {
      const percent = Math.round(100 * result.probabilities[best]);
      status.textContent = `A ${best} (${percent} %), in ${result.milliseconds.toFixed(1)} ms`;
      Object.assign(root.dataset, { digit: best, milliseconds: result.milliseconds });
    }
    showMaps();
  }

  function setRunning(value) {
    isRunning = value;
    root.ariaBusy = value;
  }

  // Classifies what is drawn; changes in the meantime are classified together, afterwards.
  async function update() {
    hasChanged = true;
    show();
    if (isRunning) return;
    setRunning(true);
    try {
      if (!loading) status.textContent = "Loading the network";
      loading ??= load();
      const classify = await loading;
      while (hasChanged) {
        hasChanged = false;
        const found = strokes.length ? await classify(toLevels(strokes)) : null;
        result = strokes.length ? found : null;
        show();
      }
    } catch (error) {
      loading = null;
      status.textContent = `The network could not be loaded: ${error.message}`;
    }
    setRunning(false);
  }

  function placeOf(event, canvas) {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  function clear() {
    [strokes, result] = [[], null];
    delete root.dataset.digit;
    status.textContent = "Draw a digit";
    show();
  }

  paper.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary || event.button) return;
    paper.setPointerCapture(event.pointerId);
    strokes.push([placeOf(event, paper)]);
    update();
  });
  paper.addEventListener("pointermove", (event) => {
    if (!paper.hasPointerCapture(event.pointerId)) return;
    strokes.at(-1)?.push(placeOf(event, paper));
    update();
  });
  find("clear").addEventListener("click", clear);
  find("example").addEventListener("click", () => {
    strokes = structuredClone(EXAMPLE);
    update();
  });

  const moveTo = (row, column) => {
    const inside = (cell) => Math.min(Math.max(cell, 0), CELLS - 1);
    Object.assign(query, { row: inside(row), column: inside(column) });
    showMaps();
  };
  for (const canvas of [view, find("content"), find("position")]) {
    canvas.addEventListener("click", (event) => {
      const [x, y] = placeOf(event, canvas);
      moveTo(Math.floor(y * CELLS), Math.floor(x * CELLS));
    });
  }
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  view.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    moveTo(query.row + step[0], query.column + step[1]);
  });
  clear();
}

const root = document.getElementById("draw");
if (root) start(root);
