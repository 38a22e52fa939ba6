/* The table of models: filters, sorts and searches as one types, and keeps its state in the address. */
"use strict";
(() => {
  const table = document.getElementById("models"), form = document.getElementById("filters");
  const body = table.tBodies[0], count = document.getElementById("count"), none = document.getElementById("none");
  const value = (cell) => { // the larger, the better
    const number = parseFloat(cell.dataset.v ?? cell.textContent);
    return Number.isNaN(number) ? null : number;
  };
  const points = new Map();
  zoo.points().forEach(([name, point]) => points.set(name, [...(points.get(name) || []), point]));
  const rows = [...body.rows].map((row, order) => {
    const [name, measured, reported, difference, parameters, task, weights] = [...row.cells];
    return {
      row, order, name: name.textContent, task: task.textContent, cell: row.dataset.cell, parameters: Number(parameters.textContent.replace(/,/g, "")),
      measured: value(measured), reported: value(reported), difference: value(difference),
      weights: weights.textContent === "-" ? 0 : weights.querySelector("a") ? 2 : 1, text: row.textContent.toLowerCase(), points: points.get(name.textContent) || [],
    };
  });
  let sorting = "";

  const fields = () => Object.fromEntries(new FormData(form));
  function apply(write = true) {
    const { q = "", task = "", cell = "", size = "", min = "", weights = "" } = fields();
    const words = q.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const each of rows) {
      const keep = words.every((word) => each.text.includes(word)) && (!task || each.task === task) && (!cell || each.cell === cell)
        && (!size || each.parameters < Number(size)) && (min === "" || (each.measured !== null && each.measured >= Number(min)))
        && (!weights || each.weights > 0);
      each.row.hidden = !keep;
      each.points.forEach((point) => point.classList.toggle("off", !keep));
      shown += keep;
    }
    count.textContent = `${shown} of ${rows.length} models`;
    none.hidden = shown > 0;
    const state = new URLSearchParams();
    for (const [key, value] of Object.entries({ q, task, cell, size, min, weights, sort: sorting })) if (value) state.set(key, value);
    const query = state.toString();
    if (write) history.replaceState(null, "", (query ? "?" + query : location.pathname) + location.hash);
  }

  const heads = [...table.tHead.rows[0].cells], sortable = heads.map((head) => head.dataset.sort);
  function sort(key) {
    const [, down, field] = /^(-?)(.*)$/.exec(sortable.includes(key.replace("-", "")) ? key : "");
    sorting = down + field;
    const numeric = ["parameters", "measured", "reported", "difference", "weights"].includes(field);
    const falling = (numeric && field !== "parameters") !== Boolean(down);
    rows.sort((a, b) => {
      if (!field) return a.order - b.order;
      const [x, y] = [a[field], b[field]];
      if (x === null || y === null) return (x === null) - (y === null) || a.order - b.order;
      return (falling ? -1 : 1) * (numeric ? x - y : x.localeCompare(y)) || a.order - b.order;
    });
    body.append(...rows.map((each) => each.row));
    zoo.sorted(heads, sortable.indexOf(field), falling);
  }

  function read(query) {
    const state = new URLSearchParams(query);
    for (const element of form.elements) { // not form.reset(), whose event would undo the sorting
      if (!element.name) continue;
      const value = state.get(element.name) ?? "";
      if (element.type === "checkbox") element.checked = value === element.value;
      else element.value = value;
    }
    sort(state.get("sort") || "");
    apply(false);
  }

  zoo.sortable(heads, (column) => {
    const field = sortable[column];
    sort(sorting === field ? "-" + field : field);
    apply();
  });
  form.addEventListener("input", () => apply());
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { sort(""); apply(); }));
  document.getElementById("clear").addEventListener("click", () => { form.reset(); form.elements.q.focus(); });
  document.querySelectorAll("[data-query]").forEach((a) => a.addEventListener("click", (event) => {
    event.preventDefault();
    read(a.dataset.query);
    apply();
    document.getElementById("table").scrollIntoView();
  }));
  window.addEventListener("popstate", () => read(location.search));
  read(location.search);
})();
