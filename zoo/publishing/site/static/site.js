/* What every page can do: copy code, hide curves, show numbers under the pointer. Nothing here is needed to read a page. */
"use strict";
const zoo = (window.zoo = window.zoo || {});

zoo.tip = (() => {
  let box = null;
  return (text, event) => {
    if (!text) { if (box) box.hidden = true; return; }
    if (!box) { box = document.body.appendChild(document.createElement("div")); box.className = "tip"; box.setAttribute("aria-hidden", "true"); }
    box.hidden = false;
    box.textContent = text;
    const { innerWidth, innerHeight } = window;
    box.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8)) + "px";
    box.style.top = Math.min(event.clientY + 16, innerHeight - box.offsetHeight - 8) + "px";
  };
})();

zoo.place = (svg, event) => {
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return [point.x, point.y];
};

zoo.heat = (group) => {
  const rows = group.dataset.v.split(";").map((line) => line.split(" "));
  const [left, top, width, height] = group.dataset.box.split(" ").map(Number);
  group.addEventListener("pointermove", (event) => {
    const [x, y] = zoo.place(group.ownerSVGElement, event);
    const column = Math.floor((x - left) / width), row = rows.length - 1 - Math.floor((y - top) / height);
    const value = rows[row] && rows[row][column];
    zoo.tip(value && `layer ${row + 1}, step ${column + 1}: ${value}`, event);
  });
  group.addEventListener("pointerleave", () => zoo.tip(null));
};

zoo.curves = (svg) => {
  const groups = [...svg.querySelectorAll(".series")];
  if (!groups.length) return;
  const curves = groups.map((group) => ({
    group, label: group.dataset.label,
    values: group.dataset.v.split(" ").map((pair) => pair.split(",")),
    places: group.querySelector("path").getAttribute("d").slice(1).split(/[ML]/).map((pair) => pair.split(" ").map(Number)),
  }));
  svg.addEventListener("pointermove", (event) => {
    const [x, y] = zoo.place(svg, event);
    let best = null, least = 900;
    for (const { group, label, values, places } of curves) {
      if (group.classList.contains("off")) continue;
      places.forEach(([px, py], i) => {
        const distance = (px - x) ** 2 + (py - y) ** 2;
        if (distance < least) { least = distance; best = `${label ? label + ", " : ""}${values[i][0]}: ${values[i][1]}`; }
      });
    }
    zoo.tip(best, event);
  });
  svg.addEventListener("pointerleave", () => zoo.tip(null));
  const legend = svg.parentElement.querySelector(".legend");
  if (!legend || groups.length < 2) return;
  [...legend.children].forEach((item, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.append(...item.childNodes);
    item.append(button);
    button.addEventListener("click", () => {
      const off = groups[i].classList.toggle("off");
      button.setAttribute("aria-pressed", String(!off));
    });
  });
};

zoo.points = () => [...document.querySelectorAll(".dots a")].map((a) => [a.textContent.split(":")[0], a]);

zoo.sortable = (heads, clicked) => heads.forEach((head, column) => {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => clicked(column));
});

zoo.sorted = (heads, column, falling) => heads.forEach((head, i) => {
  if (i === column) head.setAttribute("aria-sort", falling ? "descending" : "ascending");
  else head.removeAttribute("aria-sort");
});

document.querySelectorAll(".heat").forEach(zoo.heat);
document.querySelectorAll(".chart svg").forEach(zoo.curves);
document.querySelectorAll(".code").forEach((block) => {
  if (!navigator.clipboard) return;
  const button = block.appendChild(document.createElement("button"));
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
});
