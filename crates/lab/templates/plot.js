// Values of plots under pointer and keyboard, and zoom. Everything it shows stands in the page already: as pictures, as titles of points,
// and in tables. Nothing is fetched, kept or sent.
"use strict";
(() => {
  const DIGIT = 6.3, NAME_GAP = 12, NEAR = 26, DEEPEST = 256;

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);

  const svgOf = (name, attributes, text) => {
    const made = document.createElementNS(document.querySelector("svg.plot").namespaceURI, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const numbers = text => (text || "").split(" ").map(Number);
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

  // ---- What is under the pointer or has the focus.

  let shown = null;
  const show = point => {
    if (shown === point) return;
    hide();
    shown = point;
    const [name, value, interval] = point.told;
    tip.replaceChildren();
    for (const [tag, text] of [["b", name], ["span", value], ["small", interval]]) {
      const line = document.createElement(tag);
      line.textContent = text;
      tip.append(line);
    }
    tip.hidden = false;
    point.element.classList.add("on");
    point.line.classList.add("on");
    point.plot.svg.classList.add("some-on");
    point.plot.names.forEach(one => one.element.classList.toggle("on", one.line === point.line));
    const at = point.place().getBoundingClientRect(), own = tip.getBoundingClientRect();
    const left = clamp(at.left + at.width / 2 - own.width / 2, 6, innerWidth - own.width - 6);
    const above = at.top - own.height - 8;
    tip.style.left = left + "px";
    tip.style.top = (above >= 6 ? above : at.bottom + 8) + "px";
  };
  const hide = () => {
    if (!shown) return;
    shown.element.classList.remove("on");
    shown.line.classList.remove("on");
    shown.plot.svg.classList.remove("some-on");
    shown.plot.names.forEach(one => one.element.classList.remove("on"));
    shown = null;
    tip.hidden = true;
  };

  // ---- Scales: from values to a line on which equal steps look equal, and back.

  const scaleOf = kind => kind === "log" ? [Math.log, Math.exp] : [v => v, v => v];

  const format = (unit, value) => {
    const plain = v => String(Number(v.toPrecision(4)));
    if (unit === "micros") {
      if (value >= 1e6) return plain(value / 1e6) + " s";
      return value >= 1000 ? plain(value / 1000) + " ms" : plain(value) + " µs";
    }
    return unit === "count" && value >= 1000 ? plain(value / 1000) + " k" : plain(value);
  };

  // Round numbers between two values: 1, 2 and 5 of each power of ten where that gives some, otherwise equal steps.
  const ticks = (low, high, kind) => {
    const found = [];
    if (kind === "log" && low > 0) {
      const digits = Math.log10(high / low) > 2.2 ? [1] : [1, 2, 5];
      for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++)
        for (const digit of digits) {
          const value = digit * 10 ** power;
          if (value >= low * 0.9999 && value <= high * 1.0001) found.push(value);
        }
      if (found.length > 2) return found;
      found.length = 0;
    }
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(digit => digit * power).find(step => step >= rough) || rough;
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9 && found.length < 20; n++) found.push(n * step);
    return found;
  };

  // Places at least a gap apart, in their order and within bounds.
  const spread = (wanted, least, most) => {
    const gap = Math.min(NAME_GAP, (most - least) / Math.max(wanted.length - 1, 1));
    const at = wanted.slice();
    for (let i = 0, floor = least; i < at.length; i++) floor = (at[i] = Math.max(at[i], floor)) + gap;
    for (let i = at.length - 1, ceiling = most; i >= 0; i--) ceiling = (at[i] = Math.min(at[i], ceiling)) - gap;
    return at;
  };

  // ---- One plot.

  class Plot {
    constructor(svg) {
      this.svg = svg;
      this.points = [];
      this.names = [];
      this.zoomable = svg.dataset.area !== undefined;
      this.lines = [...svg.querySelectorAll(this.zoomable ? ".area > .s" : ":scope > .point")];
      for (const line of this.lines)
        for (const element of this.zoomable ? line.querySelectorAll(".point") : [line]) this.points.push(this.point(element, line));
      svg.setAttribute("role", "group");
      if (this.points.length) this.points[0].element.setAttribute("tabindex", "0");
      svg.addEventListener("pointermove", event => this.hover(event));
      svg.addEventListener("pointerdown", event => this.hover(event));
      svg.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") this.left(); });
      svg.addEventListener("keydown", event => this.key(event));
      if (this.zoomable) this.prepare();
    }

    point(element, line) {
      const title = element.querySelector("title"), told = title.textContent.split("\n");
      const [x, y, low, high] = numbers(element.dataset.p);
      const point = {
        plot: this, element, line, told, x, y, low, high,
        place: () => element.querySelector(".dot, .ring, .block"),
      };
      // The browser's own tooltip would cover ours.
      title.remove();
      element.setAttribute("role", "img");
      element.setAttribute("aria-label", told[0] + ", " + told[1] + ", " + told[2]);
      element.setAttribute("tabindex", "-1");
      element.addEventListener("focus", () => show(point));
      element.addEventListener("blur", hide);
      return point;
    }

    // The place of an event in the drawing's own units.
    at(event) {
      return new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
    }

    hover(event) {
      if (this.dragged) return;
      if (!this.zoomable) {
        const element = event.target.closest(".point"), point = this.points.find(point => point.element === element);
        return point ? show(point) : hide();
      }
      const { x, y } = this.at(event);
      let best = null, distance = NEAR;
      for (const point of this.points) {
        const d = Math.hypot(point.px - x, point.py - y);
        if (this.holds(point) && d < distance) [best, distance] = [point, d];
      }
      if (best) show(best); else this.left();
    }

    left() {
      if (document.activeElement !== shown?.element) hide();
    }

    key(event) {
      const point = this.points.find(point => point.element === document.activeElement);
      if (!point || event.ctrlKey || event.metaKey || event.altKey) return;
      const step = {
        ArrowRight: () => this.besides(point, 1), ArrowLeft: () => this.besides(point, -1),
        ArrowDown: () => this.below(point, 1), ArrowUp: () => this.below(point, -1),
        Home: () => this.points[0], End: () => this.points[this.points.length - 1],
      }[event.key];
      if (step) this.go(step(), point);
      else if (event.key === "Escape") hide();
      else if (this.zoomable && "+=".includes(event.key)) this.closer(0.5, point);
      else if (this.zoomable && event.key === "-") this.closer(2, point);
      else if (this.zoomable && event.key === "0") this.reset();
      else return;
      event.preventDefault();
      if (!step && event.key !== "Escape") { hide(); show(point); }
    }

    besides(point, by) {
      if (!this.zoomable) return this.points[this.points.indexOf(point) + by];
      const line = this.points.filter(other => other.line === point.line && this.holds(other));
      return line[line.indexOf(point) + by];
    }

    // The next line's point there: as they lie below each other.
    below(point, by) {
      if (!this.zoomable) return this.besides(point, by);
      const there = this.points.filter(other => other.x === point.x && this.holds(other)).sort((a, b) => a.py - b.py);
      return there[there.indexOf(point) + by];
    }

    go(to, from) {
      if (!to) return;
      from.element.setAttribute("tabindex", "-1");
      to.element.setAttribute("tabindex", "0");
      to.element.focus({ preventScroll: false });
    }

    // ---- Zoom.

    prepare() {
      const data = this.svg.dataset;
      const [left, top, right, bottom] = numbers(data.area), [before, after] = numbers(data.inset);
      this.frame = { left, top, right, bottom };
      this.from = [left + before, right - after];
      [this.xKind, this.yKind] = [data.x.split(" ")[0], data.y.split(" ")[0]];
      [this.xTo, this.xBack] = scaleOf(this.xKind);
      [this.yTo, this.yBack] = scaleOf(this.yKind);
      this.whole = {
        x: numbers(data.x).slice(1).map(this.xTo), y: numbers(data.y).slice(1).map(this.yTo),
      };
      this.window = { x: this.whole.x.slice(), y: this.whole.y.slice() };
      for (const point of this.points) [point.px, point.py] = numbers(point.element.getAttribute("transform").slice(10, -1));
      const names = this.svg.querySelectorAll(".names > g");
      this.names = [...names].map(element => ({ element, line: this.lines[element.dataset.of] }));
      // A single value on the horizontal axis cannot be spread.
      if (this.whole.x[0] === this.whole.x[1] || !this.points.length) return;
      this.numbers = [...this.svg.querySelector(".y-axis").children];
      this.tools();
      this.svg.addEventListener("pointerdown", event => this.begin(event));
      this.svg.addEventListener("pointermove", event => this.drag(event));
      this.svg.addEventListener("pointerup", event => this.end(event));
      this.svg.addEventListener("pointercancel", () => this.forget());
      this.svg.addEventListener("dblclick", () => this.reset());
    }

    tools() {
      const bar = document.createElement("span");
      bar.className = "tools";
      const button = (text, label, action) => {
        const made = document.createElement("button");
        made.type = "button";
        made.textContent = text;
        made.setAttribute("aria-label", label + ": " + this.svg.getAttribute("aria-label"));
        made.title = label;
        made.addEventListener("click", action);
        bar.append(made);
        return made;
      };
      button("+", "Zoom in", () => this.closer(0.5));
      this.out = button("−", "Zoom out", () => this.closer(2));
      this.back = button("Reset", "Show all", () => this.reset());
      this.out.disabled = this.back.disabled = true;
      this.svg.closest("figure").querySelector("figcaption").append(bar);
    }

    // Whether a point lies within what is shown.
    holds(point) {
      if (!this.zoomable) return true;
      const { left, right, bottom } = this.frame;
      return point.px >= left && point.px <= right + 1 && point.py >= -1 && point.py <= bottom + 1;
    }

    // Horizontally by a factor, around a point or the middle; vertically to what is there.
    closer(factor, around) {
      const [whole, [low, high]] = [this.whole.x, this.window.x];
      const length = clamp((high - low) * factor, (whole[1] - whole[0]) / DEEPEST, whole[1] - whole[0]);
      const middle = around ? this.xTo(around.x) : (low + high) / 2;
      const start = clamp(middle - length / 2, whole[0], whole[1] - length);
      this.look([start, start + length]);
    }

    reset() {
      this.look(this.whole.x);
    }

    // Shows so much of the horizontal axis, and of the vertical one what is asked for or what the points there need.
    look(x, y) {
      const full = x[0] <= this.whole.x[0] + 1e-9 && x[1] >= this.whole.x[1] - 1e-9;
      this.window.x = x.slice();
      this.window.y = y || (full ? this.whole.y.slice() : this.needed(x));
      const all = full && !y;
      this.out.disabled = this.back.disabled = all;
      this.draw(all);
    }

    needed([from, to]) {
      const slack = (to - from) * 0.02;
      const there = this.points.filter(point => this.xTo(point.x) >= from - slack && this.xTo(point.x) <= to + slack);
      if (!there.length) return this.window.y.slice();
      const low = Math.min(...there.map(point => this.yTo(Math.max(point.low, this.yBack(this.whole.y[0])))));
      const high = Math.max(...there.map(point => this.yTo(point.high)));
      const margin = Math.max((high - low) * 0.06, (this.whole.y[1] - this.whole.y[0]) / 1000);
      return [Math.max(low - margin, this.whole.y[0]), high + margin];
    }

    px(value) {
      const [low, high] = this.window.x, [left, right] = this.from;
      return left + (right - left) * (this.xTo(value) - low) / (high - low);
    }

    py(value) {
      const [low, high] = this.window.y, { top, bottom } = this.frame;
      return bottom - (bottom - top) * (this.yTo(Math.max(value, 1e-9)) - low) / (high - low);
    }

    draw(all) {
      hide();
      for (const line of this.lines) {
        const own = this.points.filter(point => point.line === line), dodge = Number(line.dataset.dodge);
        for (const point of own) {
          [point.px, point.py] = [this.px(point.x) + dodge, this.py(point.y)];
          point.element.setAttribute("transform", `translate(${point.px.toFixed(1)} ${point.py.toFixed(1)})`);
          const [low, high] = [this.py(point.low) - point.py, this.py(point.high) - point.py];
          point.element.querySelector(".bar").setAttribute("d", `M0 ${low.toFixed(1)}V${high.toFixed(1)}`);
        }
        const path = own.map(point => point.px.toFixed(1) + " " + point.py.toFixed(1)).join("L");
        line.querySelector(".line").setAttribute("d", "M" + path);
      }
      this.drawAxes(all);
      this.drawNames();
    }

    drawAxes(all) {
      const { left, right, bottom } = this.frame;
      let free = 0;
      for (const mark of this.svg.querySelectorAll(".x-axis > g")) {
        const x = this.px(Number(mark.dataset.at)), number = mark.querySelector("text");
        const inside = x >= left - 1 && x <= right + 1, half = number.textContent.length * DIGIT / 2;
        mark.setAttribute("transform", `translate(${x.toFixed(1)} ${bottom})`);
        mark.classList.toggle("hidden", !inside);
        number.classList.toggle("hidden", x - half < free);
        if (inside && x - half >= free) free = x + half + DIGIT;
      }
      const axis = this.svg.querySelector(".y-axis");
      axis.replaceChildren(...(all ? this.numbers : []));
      if (all) return;
      for (const value of ticks(this.yBack(this.window.y[0]), this.yBack(this.window.y[1]), this.yKind)) {
        const y = this.py(value).toFixed(1);
        const text = format(this.svg.dataset.unit, value);
        axis.append(svgOf("path", { class: "grid", d: `M${left} ${y}H${right}` }));
        axis.append(svgOf("text", { class: "tick end", x: left - 5, y: Number(y) + 3.5 }, text));
      }
    }

    // The names follow the last point that is seen of their lines.
    drawNames() {
      const { top, right, bottom } = this.frame;
      const ends = [];
      for (const name of this.names) {
        const last = this.points.filter(point => point.line === name.line && this.holds(point)).pop();
        name.element.classList.toggle("hidden", !last);
        if (last) ends.push({ name, last });
      }
      ends.sort((a, b) => a.last.py - b.last.py);
      const at = spread(ends.map(end => end.last.py), top + 2, bottom);
      ends.forEach(({ name, last }, i) => {
        const tie = `M${(last.px + 5).toFixed(1)} ${last.py.toFixed(1)}L${right + 9} ${at[i].toFixed(1)}`;
        name.element.querySelector(".tie").setAttribute("d", tie);
        name.element.querySelector(".tag").setAttribute("transform", `translate(${right + 14} ${at[i].toFixed(1)})`);
      });
    }

    // ---- Dragging with a mouse or pen: along the lines for a part of the horizontal axis, along its numbers for one of the vertical.

    begin(event) {
      if (event.pointerType === "touch" || event.button !== 0) return;
      const { x, y } = this.at(event), { left, right, bottom } = this.frame;
      if (x > right || y > bottom + 30) return;
      this.start = { x, y, vertical: x < left };
    }

    drag(event) {
      if (!this.start) return;
      const { x, y } = this.at(event), { left, top, right, bottom } = this.frame, { vertical } = this.start;
      const [from, to, least, most] = vertical ? [this.start.y, y, top, bottom] : [this.start.x, x, left, right];
      const [low, high] = [clamp(Math.min(from, to), least, most), clamp(Math.max(from, to), least, most)];
      if (!this.dragged && high - low < 5) return;
      if (!this.dragged) {
        hide();
        this.svg.setPointerCapture(event.pointerId);
        this.mark = svgOf("rect", { class: "mark" });
        this.svg.append(this.mark);
      }
      this.dragged = [low, high];
      const place = vertical ? { x: left, y: low, width: right - left, height: high - low } : { x: low, y: top, width: high - low, height: bottom - top };
      for (const key in place) this.mark.setAttribute(key, place[key]);
    }

    end() {
      const dragged = this.dragged, vertical = this.start?.vertical;
      this.forget();
      if (!dragged || dragged[1] - dragged[0] < 5) return;
      const { top, bottom } = this.frame, share = (value, [a, b]) => (value - a) / (b - a);
      if (vertical) {
        const [low, high] = this.window.y, back = value => low + (high - low) * share(value, [bottom, top]);
        return this.look(this.window.x, [back(dragged[1]), back(dragged[0])]);
      }
      const [low, high] = this.window.x, [whole0, whole1] = this.whole.x;
      const back = value => clamp(low + (high - low) * share(value, this.from), whole0, whole1);
      const [from, to] = dragged.map(back), least = (whole1 - whole0) / DEEPEST;
      if (to - from > least) this.look([from, to]);
    }

    forget() {
      this.mark?.remove();
      this.start = this.dragged = this.mark = null;
    }
  }

  for (const svg of document.querySelectorAll("svg.plot")) new Plot(svg);
  addEventListener("scroll", () => { if (document.activeElement !== shown?.element) hide(); }, { passive: true });
  addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
})();
