/* The explorable of gradients: choose a cell, a depth, a length and a loss, and see the stored lattice. */
"use strict";
(() => {
  const options = (select, values, wanted) => {
    const kept = values.reduce((best, value) => (Math.abs(value - wanted) < Math.abs(best - wanted) ? value : best));
    select.replaceChildren(...values.map((value) => new Option(value, value, false, String(value) === String(kept))));
  };
  const unique = (values) => [...new Set(values)].sort((a, b) => a - b);
  // null: the gradient overflowed
  const say = (value) => (value === null || !Number.isFinite(value) ? "overflow" : value === 0 ? "0" : Math.abs(value) >= 1e4 || Math.abs(value) < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(3))));

  function draw(view, entry, loss) {
    const values = entry.values[loss], shades = entry.shades[loss], rows = values.length, columns = values[0].length;
    const left = 56, top = 14, width = (480 - left - 12) / columns, height = Math.max(9, Math.min(26, 250 / rows));
    const reference = values[rows - 1][columns - 1];
    let shapes = "";
    values.forEach((line, row) => line.forEach((_, column) => {
      const shade = shades[row][column];
      shapes += `<path class="${shade < 0 ? "cold" : "warm"}" style="--p:${(100 * Math.abs(shade)) / zoo.levels}%" d="M${left + column * width} ${top + (rows - 1 - row) * height}h${width}v${height}h-${width}z"/>`;
    }));
    const bottom = top + rows * height, places = (n, most) => [...Array(n).keys()].filter((i) => i === 0 || i === n - 1 || ((i + 1) % Math.ceil(n / most) === 0 && n - 1 - i >= Math.ceil(n / most) / 2));
    const ticks = places(rows, 8).map((r) => `<text class="end" x="${left - 6}" y="${bottom - (r + 0.5) * height + 4}">${r + 1}</text>`).join("")
      + places(columns, 10).map((c) => `<text class="mid" x="${left + (c + 0.5) * width}" y="${bottom + 16}">${c + 1}</text>`).join("");
    const numbers = values.map((line) => line.map(say).join(" ")).join(";");
    const first = values[0][columns - 1] / reference, back = values[0][0] / reference;
    const sentence = `Gradient norm at layer 1 relative to layer ${rows} at step ${columns}: ${say(back)} at step 1, ${say(first)} at step ${columns}.`;
    view.innerHTML = `<svg viewBox="0 0 480 ${bottom + 44}" role="img" aria-label="${sentence}"><g class="heat" data-v="${numbers}" data-box="${left} ${top} ${width} ${height}">${shapes}</g>${ticks}`
      + `<text class="mid title" x="262" y="${bottom + 36}">step</text><text class="mid title" transform="translate(13 ${top + rows * height / 2}) rotate(-90)">layer</text></svg><p></p><p class="note"></p>`;
    const [words, note] = view.querySelectorAll("p");
    words.textContent = sentence;
    note.textContent = `${entry.of}; ${entry.runs} random networks`;
    zoo.heat(view.querySelector(".heat"));
  }

  function update(form) {
    const { cell, layers, steps, loss } = form.elements;
    const ofCell = zoo.lattices.filter((entry) => entry.cell === cell.value);
    options(layers, unique(ofCell.map((entry) => entry.layers)), layers.value || 12);
    const ofDepth = ofCell.filter((entry) => entry.layers === Number(layers.value));
    options(steps, unique(ofDepth.map((entry) => entry.steps)), steps.value || 10);
    draw(form.querySelector(".view"), ofDepth.find((entry) => entry.steps === Number(steps.value)), loss.value);
  }

  const state = new URLSearchParams(location.search);
  document.querySelectorAll(".pick").forEach((form, i) => {
    const wanted = i ? state.get("beside") || "star" : state.get("cell") || "lstm";
    if ([...form.elements.cell.options].some((option) => option.value === wanted)) form.elements.cell.value = wanted;
    form.addEventListener("change", () => {
      update(form);
      const [left, right] = document.querySelectorAll(".pick");
      history.replaceState(null, "", `?cell=${left.elements.cell.value}&beside=${right.elements.cell.value}`);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    update(form);
  });
})();
