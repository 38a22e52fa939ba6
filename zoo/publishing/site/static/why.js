/* The explorable of gradients: choose a cell, a network and a loss, and see the stored lattice. */
"use strict";
(() => {
  // null: the gradient overflowed
  const say = (value) => (value === null || !Number.isFinite(value) ? "overflow" : value === 0 ? "0" : Math.abs(value) >= 1e4 || Math.abs(value) < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(3))));

  function draw(view, entry, loss) {
    const values = entry.values[loss], shades = entry.shades[loss], rows = values.length, columns = values[0].length;
    const left = 56, top = 14, width = (480 - left - 12) / columns, height = Math.max(9, Math.min(26, 250 / rows));
    const reference = values[rows - 1][columns - 1];
    let shapes = "";
    values.forEach((line, row) => line.forEach((_, column) => {
      const shade = shades[row].charCodeAt(column) - 65 - zoo.levels; // a letter, "A" for the coldest
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

  /* Fill in the networks of the chosen cell. Choose the one called `name`, or else the nearest in depth and steps to `like`. */
  function fill(form, name, like) {
    const { cell, network } = form.elements, far = (entry) => 1000 * Math.abs(entry.layers - like.layers) + Math.abs(entry.steps - like.steps);
    const ofCell = zoo.lattices.filter((entry) => entry.cell === cell.value);
    const chosen = ofCell.find((entry) => entry.name === name) || ofCell.reduce((best, entry) => (far(entry) < far(best) ? entry : best));
    network.replaceChildren(...ofCell.map((entry) => new Option(`${entry.name}, ${entry.steps} steps`, entry.name, false, entry === chosen)));
  }
  const shown = (form) => zoo.lattices.find((entry) => entry.name === form.elements.network.value && entry.cell === form.elements.cell.value);

  const state = new URLSearchParams(location.search), forms = [...document.querySelectorAll(".pick")], sides = ["cell", "beside"];
  forms.forEach((form, i) => {
    const { cell, network, loss } = form.elements, wanted = state.get(sides[i]), known = zoo.lattices.find((entry) => entry.name === wanted);
    const cells = [...cell.options].map((option) => option.value), first = ["lstm", "star"][i];
    cell.value = [known?.cell, wanted, first, cells[0]].find((name) => cells.includes(name));
    if (state.get(`${sides[i]}-loss`) === "all") loss.value = "all";
    fill(form, wanted, { layers: 12, steps: 10 });
    draw(form.querySelector(".view"), shown(form), loss.value);
    let before = shown(form);
    form.addEventListener("change", () => {
      if (cell.value !== before.cell) fill(form, "", before);
      before = shown(form);
      draw(form.querySelector(".view"), before, loss.value);
      const query = new URLSearchParams();
      forms.forEach((each, side) => {
        query.set(sides[side], each.elements.network.value);
        if (each.elements.loss.value === "all") query.set(`${sides[side]}-loss`, "all");
      });
      history.replaceState(null, "", `?${query}${location.hash}`);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
  });
})();
