// The JavaScript of a report's page, which needs no server and no library.
// SPDX-License-Identifier: Apache-2.0
// The page holds its numbers as JSON (report_html.cpp). Each figure is drawn anew from
// them: where the pointer is, the values there are shown; a drag across zooms in.
#pragma once

#include <string_view>

namespace trireme::app {

inline constexpr std::string_view report_script = R"js(
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const view = { smooth: 0, axis: 'step', log: false };
const H = 290, L = 62, R = 14, T = 12, B = 34;
let W = 620;  // of the figure that is drawn
const svgNS = 'http://www.w3.org/2000/svg';
const root = document.documentElement;
const dark = () => root.dataset.theme ? root.dataset.theme === 'dark'
  : matchMedia('(prefers-color-scheme: dark)').matches;
const colour = n => (dark() ? data.dark : data.light)[n % data.light.length];
const make = (name, attributes, parent, text) => {
  const node = document.createElementNS(svgNS, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
};
const element = (name, parent, text) => {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.appendChild(node);
  return node;
};
// base: 1, or 1024 to some power where values are bytes.
function ticks(low, high, count, base = 1) {
  if (base !== 1) return ticks(low / base, high / base, count).map(t => t * base);
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  if (!(rough > 0) || !isFinite(power)) return [];
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= rough) || rough;
  const out = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
    out.push(i * step);
    if (out.length > 60) break;
  }
  return out;
}
function plain(value, digits) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  for (const [unit, name] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']])
    if (size >= Math.max(unit, 1e4))
      return size < 1e18 ? +(value / unit).toPrecision(digits) + ' ' + name
                         : value.toExponential(2);
  return size < 1e-3 ? +value.toPrecision(digits) + '' : +value.toPrecision(digits) + '';
}
function bytes(value) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  while (Math.abs(value) >= 1024 && i < 5) { value /= 1024; ++i; }
  return +value.toPrecision(3) + ' ' + units[i];
}
const byteBase = high => 1024 ** Math.max(0, Math.min(5,
  Math.floor(Math.log2(Math.abs(high) || 1) / 10)));
function shown(figure, value, digits = 4) {
  if (figure.share) return +(100 * value).toPrecision(digits) + ' %';
  return figure.bytes ? bytes(value) : plain(value, digits);
}
// Steps to the axis that is wanted: tokens or hours of the run, between known points.
function toAxis(run, step) {
  const table = view.axis === 'step' ? null : data.runs[run][view.axis];
  if (!table || !table[0].length) return view.axis === 'step' ? step : NaN;
  const [xs, ys] = table;
  let low = 0, high = xs.length - 1;
  if (step >= xs[high]) return ys[high];
  if (step <= xs[0]) return ys[0];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= step) low = middle; else high = middle;
  }
  const share = (step - xs[low]) / (xs[high] - xs[low]);
  return ys[low] + share * (ys[high] - ys[low]);
}
// An exponential mean that counts from the first point on.
function smoothed(ys) {
  if (view.smooth <= 0) return ys;
  let mean = 0, weight = 0;
  return ys.map(y => {
    mean = view.smooth * mean + (1 - view.smooth) * y;
    weight = view.smooth * weight + (1 - view.smooth);
    return mean / weight;
  });
}
class Figure {
  constructor(box, of) {
    this.box = box; this.of = of; this.off = new Set(); this.zoom = null;
    box.querySelector('.static').remove();
    this.svg = make('svg', { role: 'img' });
    this.svg.setAttribute('aria-label', of.title);
    box.querySelector('figcaption').before(this.svg);
    this.legend = element('div'); this.legend.className = 'legend';
    box.querySelector('figcaption').before(this.legend);
    this.tip = element('div', box); this.tip.className = 'tip';
    const reset = element('button', box.querySelector('.head'), 'whole');
    reset.title = 'Show the whole range (or double-click the plot)';
    reset.onclick = () => { this.zoom = null; this.draw(); };
    this.svg.ondblclick = reset.onclick;
    this.svg.onpointerdown = e => { this.from = this.at(e); this.moved = false; };
    this.svg.onpointermove = e => this.move(e);
    this.svg.onpointerup = e => this.drop(e);
    this.svg.onpointerleave = () => { this.tip.style.display = 'none'; this.from = null;
      this.shade.setAttribute('width', 0); this.cross.setAttribute('visibility', 'hidden'); };
    of.lines.forEach((line, i) => {
      const button = element('button', this.legend);
      const chip = element('span', button);
      chip.className = line.dashed ? 'chip dashed' : 'chip';
      chip.dataset.line = i;
      button.append(line.name);
      button.onclick = () => {
        if (!this.off.delete(i)) this.off.add(i);
        button.classList.toggle('off', this.off.has(i));
        this.draw();
      };
    });
    this.draw();
  }
  number(i) { const line = this.of.lines[i]; return line.colour < 0 ? i : line.colour; }
  curves() {
    const below = new Map();
    return this.of.lines.map((line, i) => {
      const xs = [], ys = [];
      if (this.off.has(i)) return { i, xs, ys, raw: ys };
      line.x.forEach((step, k) => {
        const x = toAxis(line.run, step), y = line.y[k];
        if (!isFinite(x) || y === null) return;
        xs.push(x); ys.push(y);
      });
      const raw = smoothed(ys);
      if (!this.of.stacked) return { i, xs, ys: raw, raw };
      const sums = raw.map((y, k) => y + (below.get(xs[k]) || 0));
      sums.forEach((y, k) => below.set(xs[k], y));
      return { i, xs, ys: sums, raw };
    });
  }
  draw() {
    const { of, svg } = this;
    svg.replaceChildren();
    W = this.width = Math.max(260, Math.round(svg.getBoundingClientRect().width) || 620);
    svg.setAttribute('viewBox', `0 0 ${W} ${H}`);
    this.box.classList.toggle('zoomed', !!this.zoom);
    this.legend.querySelectorAll('.chip').forEach(chip =>
      chip.style.setProperty('--c', colour(this.number(+chip.dataset.line))));
    const curves = this.drawn = this.curves();
    let [x0, x1] = [Infinity, -Infinity], [y0, y1] = [Infinity, -Infinity];
    for (const c of curves) for (const x of c.xs) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); }
    if (this.zoom) [x0, x1] = this.zoom;
    const log = view.log && !of.stacked;
    for (const c of curves) c.xs.forEach((x, k) => {
      const y = c.ys[k];
      if (x < x0 || x > x1 || (log && y <= 0)) return;
      y0 = Math.min(y0, y); y1 = Math.max(y1, y);
    });
    this.shade = make('rect', { y: T, height: H - T - B, width: 0, fill: 'var(--accent)',
      opacity: .15 });
    this.cross = make('line', { y1: T, y2: H - B, stroke: 'var(--soft)',
      visibility: 'hidden' });
    if (!(y0 <= y1)) {
      make('text', { x: W / 2, y: H / 2, 'text-anchor': 'middle', fill: 'var(--soft)' }, svg,
        'no data');
      return;
    }
    if ((of.zero || of.stacked) && !log) { y0 = Math.min(y0, 0); y1 = Math.max(y1, 0); }
    const f = log ? Math.log10 : v => v;
    let [a, b] = [f(y0), f(y1)];
    const flat = b - a <= 1e-12 * Math.max(Math.abs(a), Math.abs(b));
    const margin = flat ? Math.max(Math.abs(b) * .05, 1e-12) : .05 * (b - a);
    b += margin; if (a !== 0) a -= margin;
    if (x1 <= x0) { x0 -= .5; x1 += .5; }
    this.scale = { x0, x1 };
    const width = W - L - R;
    const px = x => L + (x - x0) / (x1 - x0) * width;
    const py = y => H - B - (f(y) - a) / (b - a) * (H - T - B);
    this.px = px; this.py = py;
    for (const x of ticks(x0, x1, W / 85)) {
      if (view.axis === 'step' && x % 1) continue;
      make('line', { x1: px(x), x2: px(x), y1: T, y2: H - B, stroke: 'var(--grid)' }, svg);
      make('text', { x: px(x), y: H - B + 16, 'text-anchor': 'middle', 'font-size': 12,
        fill: 'var(--soft)' }, svg, plain(x, 4));
    }
    for (const t of ticks(a, b, 5, of.bytes && !log ? byteBase(b) : 1)) {
      const y = H - B - (t - a) / (b - a) * (H - T - B);
      make('line', { x1: L, x2: W - R, y1: y, y2: y, stroke: 'var(--grid)' }, svg);
      make('text', { x: L - 7, y: y + 4, 'text-anchor': 'end', 'font-size': 12,
        fill: 'var(--soft)' }, svg, shown(of, log ? 10 ** t : t, 3));
    }
    make('text', { x: W - R, y: H - 4, 'text-anchor': 'end', 'font-size': 12,
      fill: 'var(--soft)' }, svg, view.axis === 'hours' ? 'hours of steps' : view.axis);
    const id = 'clip-' + of.id;
    make('rect', { x: L, y: T, width: W - L - R, height: H - T - B },
      make('clipPath', { id }, make('defs', {}, svg)));
    const inside = make('g', { 'clip-path': `url(#${id})` }, svg);
    for (const { i, xs, ys } of of.stacked ? [...curves].reverse() : curves) {
      if (!xs.length) continue;
      let path = '';
      xs.forEach((x, k) => {
        if (log && ys[k] <= 0) return;
        path += `${path ? 'L' : 'M'}${px(x).toFixed(1)} ${py(ys[k]).toFixed(1)}`;
      });
      const stroke = colour(this.number(i));
      if (of.stacked)
        make('path', { d: `M${px(xs[0])} ${py(0)}L${path.slice(1)}L${px(xs.at(-1))} ${py(0)}Z`,
          fill: stroke }, inside);
      else if (xs.length === 1)
        make('circle', { cx: px(xs[0]), cy: py(ys[0]), r: 3.5, fill: stroke }, inside);
      else
        make('path', { d: path, fill: 'none', stroke, 'stroke-width': 1.7,
          'stroke-linejoin': 'round', 'stroke-dasharray': of.lines[i].dashed ? '6 4' : 'none' },
          inside);
    }
    for (const mark of of.marks) {
      const x = toAxis(mark.run, mark.x);
      if (x >= x0 && x <= x1)
        make('line', { x1: px(x), x2: px(x), y1: T, y2: H - B, 'stroke-dasharray': '4 4',
          class: 'mark', stroke: mark.colour < 0 ? 'var(--soft)' : colour(mark.colour) }, inside);
    }
    svg.append(this.shade, this.cross);
  }
  at(event) {
    const box = this.svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * this.width;
    return Math.min(Math.max(x, L), this.width - R);
  }
  value(x) {
    const { x0, x1 } = this.scale;
    return x0 + (x - L) / (this.width - L - R) * (x1 - x0);
  }
  move(event) {
    if (!this.scale) return;
    const x = this.at(event);
    if (this.from != null && Math.abs(x - this.from) > 4) {
      this.moved = true;
      this.shade.setAttribute('x', Math.min(x, this.from));
      this.shade.setAttribute('width', Math.abs(x - this.from));
    }
    this.tell(x, event);
  }
  drop(event) {
    const x = this.at(event);
    if (this.from != null && this.moved && Math.abs(x - this.from) > 8) {
      const ends = [this.value(this.from), this.value(x)];
      this.zoom = ends[0] < ends[1] ? ends : ends.reverse();
      this.draw();
    }
    this.from = null; this.shade.setAttribute('width', 0);
  }
  // The nearest point of each curve, in a box beside the pointer.
  tell(x, event) {
    const wanted = this.value(x), rows = [];
    let nearest = null;
    for (const { i, xs, raw } of this.drawn) {
      if (!xs.length) continue;
      let low = 0, high = xs.length - 1;
      while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (xs[middle] <= wanted) low = middle; else high = middle;
      }
      const k = wanted - xs[low] < xs[high] - wanted ? low : high;
      if (nearest === null || Math.abs(xs[k] - wanted) < Math.abs(nearest - wanted))
        nearest = xs[k];
      rows.push([i, raw[k]]);
    }
    if (nearest === null) return;
    this.cross.setAttribute('x1', this.px(nearest));
    this.cross.setAttribute('x2', this.px(nearest));
    this.cross.setAttribute('visibility', 'visible');
    this.tip.replaceChildren();
    element('div', this.tip, `${view.axis} ${plain(nearest, 6)}`).className = 'soft';
    for (const [i, y] of rows.slice(0, 24)) {
      const row = element('div', this.tip), chip = element('span', row);
      chip.className = 'chip'; chip.style.setProperty('--c', colour(this.number(i)));
      element('span', row, this.of.lines[i].name);
      element('b', row, shown(this.of, y, 5));
    }
    this.tip.style.display = 'block';
    const box = this.box.getBoundingClientRect(), tip = this.tip.getBoundingClientRect();
    const left = event.clientX - box.left;
    this.tip.style.left = Math.max(4, left + 16 + tip.width < box.width ? left + 16
      : left - tip.width - 16) + 'px';
    this.tip.style.top = event.clientY - box.top + 12 + 'px';
  }
} // Figure
const figures = data.figures.map(of => new Figure(document.getElementById('figure-' + of.id), of));
const again = () => figures.forEach(figure => figure.draw());
const tool = id => document.getElementById(id);
tool('tools').hidden = false;
tool('smooth').oninput = e => { view.smooth = Math.sqrt(+e.target.value / 100) * .995; again(); };
tool('log').onchange = e => { view.log = e.target.checked; again(); };
tool('axis').onchange = e => { view.axis = e.target.value;
  figures.forEach(figure => { figure.zoom = null; }); again(); };
tool('theme').onclick = () => { root.dataset.theme = dark() ? 'light' : 'dark'; again(); };
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
let resized = 0;
addEventListener('resize', () => { clearTimeout(resized); resized = setTimeout(again, 100); });
document.body.dataset.ready = figures.length;
)js";

}  // namespace trireme::app
