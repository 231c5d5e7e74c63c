"use strict";
// Line charts that can be zoomed: drag, the buttons, or + - arrows 0 when a chart has the focus.
for (const [place, box] of document.querySelectorAll(".chart").entries()) {
  const data = JSON.parse(box.querySelector("script").textContent);
  const plot = box.querySelector(".plot"), note = box.querySelector("output");
  const axes = Object.keys(data.x);
  let axis = axes[0], view = null, drag = null, near = data.near;
  const finite = v => v !== null && Number.isFinite(v) && (!data.log || v > 0);
  const up = data.log ? Math.log10 : v => v;
  const short = v => v === 0 ? "0" : Math.abs(v) >= 1e5 || Math.abs(v) < 1e-3
    ? v.toExponential(1).replace("+", "") : String(+v.toPrecision(4));
  const span = () => { const x = data.x[axis]; return [x[0], x[x.length - 1] > x[0] ? x[x.length - 1] : x[0] + 1]; };
  const nice = (a, b, most) => {
    const raw = (b - a) / most, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= raw), out = [];
    for (let t = Math.ceil(a / step) * step; t <= b + step * 1e-9; t += step) out.push(Math.abs(t) < step * 1e-9 ? 0 : t);
    return out;
  };
  let scale;
  function draw() {
    const x = data.x[axis], [x0, x1] = view || span();
    const width = Math.max(plot.clientWidth, 240), height = 250, left = 62, right = 12, top = 10, bottom = 42;
    let low = Infinity, high = -Infinity;
    for (const s of data.series) s.y.forEach((v, i) => {
      if (finite(v) && x[i] >= x0 && x[i] <= x1) { low = Math.min(low, up(v)); high = Math.max(high, up(v)); }
    });
    if (data.target) { low = Math.min(low, up(data.target)); high = Math.max(high, up(data.target)); }
    if (near && !view) [low, high] = near;
    if (!(high >= low)) { low = 0; high = 1; }
    const pad = (high - low) * 0.06 || Math.abs(high) * 0.05 || 0.5; low -= pad; high += pad;
    const px = v => left + (v - x0) / (x1 - x0) * (width - left - right);
    const py = v => top + (high - up(v)) / (high - low) * (height - top - bottom);
    scale = {x0, x1, px, inverse: p => x0 + (p - left) / (width - left - right) * (x1 - x0)};
    let out = `<svg viewBox="0 0 ${width} ${height}" height="${height}" role="presentation"><defs><clipPath id="clip${place}"><rect x="${left - 6}" y="${top - 6}" width="${width - left - right + 12}" height="${height - top - bottom + 12}"/></clipPath></defs>`;
    const decades = data.log && high - low >= 1.2;
    const ticks = decades ? nice(low, high, 6).filter(Number.isInteger).map(t => 10 ** t)
      : nice(data.log ? 10 ** low : low, data.log ? 10 ** high : high, 5);
    for (const t of ticks) if (!data.log || t > 0) out += `<line class="axis" x1="${left}" x2="${width - right}" y1="${py(t)}" y2="${py(t)}"/><text x="${left - 6}" y="${py(t) + 4}" text-anchor="end">${decades ? "1e" + Math.round(Math.log10(t)) : short(t)}</text>`;
    for (const t of nice(x0, x1, Math.max(2, width / 110))) out += `<text x="${px(t)}" y="${height - 22}" text-anchor="middle">${short(t)}</text>`;
    out += `<text x="${(left + width - right) / 2}" y="${height - 4}" text-anchor="middle">${axis}</text><g clip-path="url(#clip${place})">`;
    if (data.target) out += `<line class="mark" x1="${left}" x2="${width - right}" y1="${py(data.target)}" y2="${py(data.target)}"/>`;
    data.series.forEach(s => {
      const points = x.map((v, i) => finite(s.y[i]) ? `${px(v).toFixed(1)},${py(s.y[i]).toFixed(1)}` : null).filter(Boolean);
      out += `<polyline class="line ${s.kind}" points="${points.join(" ")}"/>`;
      if (points.length < 40) for (const p of points) { const [a, b] = p.split(","); out += `<circle class="dot ${s.kind}" cx="${a}" cy="${b}" r="${points.length > 1 ? 2.5 : 5}"/>`; }
    });
    plot.innerHTML = out + `</g><rect class="brush" y="${top}" height="${height - top - bottom}" width="0"/></svg>`;
  }
  function zoom(a, b) {
    const [least, most] = span(); a = Math.max(a, least); b = Math.min(b, most);
    if (b - a < (most - least) * 1e-4) return;
    view = a <= least && b >= most ? null : [a, b]; draw();
  }
  function act(what) {
    const {x0, x1} = scale, w = x1 - x0, [least, most] = span();
    if (what === "in") zoom(x0 + w / 4, x1 - w / 4);
    else if (what === "out") zoom(x0 - w / 2, x1 + w / 2);
    else if (what === "left") { const s = Math.min(w / 4, x0 - least); zoom(x0 - s, x1 - s); }
    else if (what === "right") { const s = Math.min(w / 4, most - x1); zoom(x0 + s, x1 + s); }
    else { if (!view) near = near ? null : data.near; view = null; draw(); }
  }
  function tell(clientX) {
    const at = scale.inverse(clientX - plot.getBoundingClientRect().left), x = data.x[axis];
    let i = 0; x.forEach((v, k) => { if (Math.abs(v - at) < Math.abs(x[i] - at)) i = k; });
    note.textContent = `${axis} ${short(x[i])}: ` + data.series.map(s => `${s.name} ${s.y[i] === null ? "not known" : s.y[i].toPrecision(6)}`).join(", ");
  }
  box.addEventListener("click", e => {
    const b = e.target.closest("button"); if (!b) return;
    if (b.dataset.axis) {
      axis = b.dataset.axis; view = null; draw();
      for (const o of box.querySelectorAll("[data-axis]")) o.setAttribute("aria-pressed", o === b);
    } else act(b.dataset.act);
  });
  plot.addEventListener("keydown", e => {
    const what = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all"}[e.key];
    if (what) { act(what); e.preventDefault(); }
  });
  const inside = e => e.clientX - plot.getBoundingClientRect().left;
  plot.addEventListener("pointerdown", e => { drag = inside(e); plot.setPointerCapture(e.pointerId); });
  plot.addEventListener("pointermove", e => {
    tell(e.clientX);
    if (drag === null) return;
    const brush = plot.querySelector(".brush"), p = inside(e);
    brush.setAttribute("x", Math.min(drag, p)); brush.setAttribute("width", Math.abs(p - drag));
  });
  plot.addEventListener("pointerup", e => {
    const p = inside(e), from = drag; drag = null;
    if (from !== null && Math.abs(p - from) > 8) zoom(scale.inverse(Math.min(from, p)), scale.inverse(Math.max(from, p)));
    else draw();
  });
  plot.addEventListener("pointercancel", () => { drag = null; draw(); });
  new ResizeObserver(draw).observe(box);
  draw();
}
