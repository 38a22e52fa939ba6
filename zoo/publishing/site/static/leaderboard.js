/* The leaderboard: sorts the cells by a column, and shows those whose names one types, in the table and in the charts. */
"use strict";
(() => {
  const table = document.getElementById("ranks"), heads = [...table.tHead.rows[0].cells];
  const search = document.getElementById("search"), count = document.getElementById("count");
  const place = (cell) => (cell.dataset.v === undefined ? Infinity : Number(cell.dataset.v));
  const rows = [...table.tBodies[0].rows].map((row, order) => ({
    row, order, name: row.cells[0].textContent, places: [...row.cells].map(place),
    points: [],
  }));
  const named = new Map(rows.map((each) => [each.name, each]));
  zoo.points().forEach(([name, point]) => named.get(name).points.push(point));
  let sorting = null;

  zoo.sortable(heads, (column) => {
    const falling = sorting === column;
    sorting = falling ? null : column;
    const sign = falling ? -1 : 1;
    rows.sort((a, b) => {
      const [x, y] = [a.places[column], b.places[column]];
      if (column === 0) return sign * a.name.localeCompare(b.name);
      if (x === y) return a.order - b.order;
      return Number.isFinite(x) && Number.isFinite(y) ? sign * (x - y) : x - y; // what was not measured stays below
    });
    table.tBodies[0].append(...rows.map((each) => each.row));
    zoo.sorted(heads, column, falling);
  });

  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const each of rows) {
      const keep = !words.length || words.some((word) => each.name.includes(word));
      each.row.hidden = !keep;
      each.points.forEach((point) => point.classList.toggle("off", !keep));
      shown += keep;
    }
    count.textContent = words.length ? `${shown} of ${rows.length} cells` : "";
  });
})();
