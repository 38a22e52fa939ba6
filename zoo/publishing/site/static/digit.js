/* A digit on a model's page: drawn by hand, or a test image. */
"use strict";
zoo.inputs.digit = ({ control, stop, go, say, forget }) => {
  const pad = document.getElementById("pad"), pen = pad.getContext("2d", { willReadFrequently: true });
  let pixels = null, last = null, sample = -1, dirty = false;
  const clear = () => { pen.fillStyle = "#0d0e11"; pen.fillRect(0, 0, 280, 280); pixels = null; dirty = false; };
  const invite = () => { pen.fillStyle = "#a9adb8"; pen.font = "17px sans-serif"; pen.textAlign = "center"; pen.fillText("draw a digit here", 140, 145); };
  const show = (read = -1, layout = "pixels") => {
    const order = layout === "rows" ? null : zoo.order(layout), seen = new Uint8Array(784);
    for (let t = 0; t <= read; t++) { if (order) seen[order[t]] = 1; else seen.fill(1, 28 * t, 28 * t + 28); }
    for (let i = 0; i < 784; i++) {
      const v = Math.round(255 * pixels[i]);
      pen.fillStyle = read < 0 || seen[i] ? `rgb(${v},${v},${v})` : `rgb(${Math.round(24 + 0.28 * v)},${Math.round(34 + 0.36 * v)},${Math.round(58 + 0.5 * v)})`;
      pen.fillRect(10 * (i % 28), 10 * Math.floor(i / 28), 10, 10);
    }
    if (read < 0) return;
    pen.strokeStyle = "#ffb000";
    pen.lineWidth = 2;
    if (order) pen.strokeRect(10 * (order[read] % 28) - 1, 10 * Math.floor(order[read] / 28) - 1, 12, 12);
    else pen.strokeRect(1, 10 * read, 278, 10);
  };
  /* As MNIST's makers did: into 20 by 20 pixels, its centre of mass in the middle of 28 by 28. */
  const centred = () => {
    const data = pen.getImageData(0, 0, 280, 280).data;
    let [left, top, right, bottom] = [280, 280, -1, -1];
    for (let y = 0; y < 280; y++) for (let x = 0; x < 280; x++) if (data[4 * (280 * y + x)] > 60) {
      left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
    }
    if (right < 0) return null;
    const scale = 20 / Math.max(right - left + 1, bottom - top + 1);
    const small = document.createElement("canvas");
    small.width = small.height = 28;
    const draw = (dx, dy) => {
      const to = small.getContext("2d", { willReadFrequently: true });
      to.fillStyle = "#000";
      to.fillRect(0, 0, 28, 28);
      to.imageSmoothingQuality = "high";
      to.drawImage(pad, left, top, right - left + 1, bottom - top + 1, dx, dy, scale * (right - left + 1), scale * (bottom - top + 1));
      return Array.from({ length: 784 }, (_, i) => to.getImageData(i % 28, Math.floor(i / 28), 1, 1).data[0]).map((v) => (v < 20 ? 0 : v / 255));
    };
    const x0 = 14 - (scale * (right - left + 1)) / 2, y0 = 14 - (scale * (bottom - top + 1)) / 2, trial = draw(x0, y0);
    let [mass, x, y] = [0, 0, 0];
    trial.forEach((v, i) => { mass += v; x += v * (i % 28); y += v * Math.floor(i / 28); });
    return draw(x0 + Math.round(13.5 - x / mass), y0 + Math.round(13.5 - y / mass));
  };
  const spot = (event) => { const box = pad.getBoundingClientRect(); return [(280 * (event.clientX - box.left)) / box.width, (280 * (event.clientY - box.top)) / box.height]; };
  pad.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary || event.button) return;
    stop();
    if (pixels || !dirty) { clear(); forget(); say("Press “Read it” when the digit is done."); }
    dirty = true;
    last = spot(event);
    pad.setPointerCapture(event.pointerId);
    line(last, last);
  });
  const line = (from, to) => { pen.strokeStyle = "#fff"; pen.lineWidth = 21; pen.lineCap = pen.lineJoin = "round"; pen.beginPath(); pen.moveTo(...from); pen.lineTo(to[0] + 0.01, to[1]); pen.stroke(); };
  pad.addEventListener("pointermove", (event) => { if (last && event.isPrimary) { const next = spot(event); line(last, next); last = next; } });
  const end = () => { last = null; };
  pad.addEventListener("pointerup", end);
  pad.addEventListener("pointercancel", end);
  control("clear").addEventListener("click", () => { stop(); clear(); invite(); forget(); say("Draw a digit, or take a test image."); });
  control("sample").addEventListener("click", () => {
    sample = (sample + 1) % zoo.digits.length;
    pixels = Array.from(atob(zoo.digits[sample].pixels), (c) => c.charCodeAt(0) / 255);
    dirty = true;
    show();
    go();
  });
  clear();
  invite();
  return {
    read: (model) => {
      if (!pixels) pixels = dirty ? centred() : null;
      if (!pixels) throw new Error("Draw a digit first, or take a test image.");
      return zoo.rows(model.layout, pixels);
    },
    show: (t, model) => pixels && show(t, model.layout),
    set: (values) => { pixels = values; dirty = true; show(); },
  };
};
