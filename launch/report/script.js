// SPDX-License-Identifier: Apache-2.0
// Zooms and moves the timelines. Without it, each shows the start of the run.
"use strict";
(function () {
  const LABELS = 190, CHART = 1000, ROW = 34, TOP = 24, MOST = 1500, ATONCE = 300, LEAST = 20;  // px, actions, us
  const NS = "http://www.w3.org/2000/svg";
  const LOOKS = ["p-compute", "p-evaluate", "p-checkpoint", "p-server", "p-bubble", "p-send"];
  const NAMES = ["compute", "evaluation", "checkpoint", "server wait", "wait for stages", "send"];
  const WIDE = "FBWRUE";

  function decoded(data) {  // actions of each window and rank: [start, end, letter, name, predicted start, predicted end]
    for (const w of data.windows) {
      w.ranks = w.ranks.map(function (flat) {
        const out = [];
        let start = 0;
        for (let i = 0; i < flat.length; i += 7) {
          start += flat[i];
          const letter = String.fromCharCode(flat[i + 2]);
          out.push([start, start + flat[i + 1], letter, letter + flat[i + 3] + "." + flat[i + 4],
                    start + flat[i + 5], start + flat[i + 5] + flat[i + 6]]);
        }
        return out;
      });
      const messages = [];
      for (let i = 0, start = 0; i < w.messages.length; i += 4) {
        start += w.messages[i + 2];
        messages.push([w.messages[i], w.messages[i + 1], start, start + w.messages[i + 3]]);
      }
      w.messages = messages;  // rows, sent, received
    }
    return data;
  }
  function time(us) {
    const digits = function (value) { return String(Number(value.toPrecision(5))); };
    return us >= 1e6 ? digits(us / 1e6) + " s" : us >= 1e3 ? digits(us / 1e3) + " ms" : us.toFixed(0) + " us";
  }
  function step(range) {
    const raw = range / 8, power = Math.pow(10, Math.floor(Math.log10(raw)));
    for (const f of [1, 2, 5]) if (raw <= f * power) return f * power;
    return 10 * power;
  }
  function add(parent, name, attributes, text, tip) {
    const e = document.createElementNS(NS, name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    if (text !== undefined) e.textContent = text;
    if (tip) add(e, "title", {}, tip);
    parent.appendChild(e);
    return e;
  }

  function Timeline(controls) {
    const id = controls.dataset.timeline;
    const data = decoded(JSON.parse(document.getElementById(id + "-timeline-data").textContent));
    const svg = document.getElementById(id + "-actions");
    const said = controls.querySelector("output");
    const whole = data.seconds * 1e6;
    const labels = Array.from(svg.querySelectorAll("text")).filter(function (t) {
      return t.getAttribute("text-anchor") === "end" && Number(t.getAttribute("x")) < LABELS;
    });
    const kept = Array.from(svg.querySelectorAll("title, desc")).filter(function (e) { return e.parentNode === svg; }).concat(labels);
    const bottom = TOP + ROW * data.ranks.length;
    let from = 0, to = whole, messages = false;

    function x(us) { return LABELS + CHART * (us - from) / (to - from); }
    function box(layer, a, b, y, height, look, tip) {
      const left = Math.max(LABELS, x(a)), right = Math.min(LABELS + CHART, x(b));
      if (right < LABELS || left > LABELS + CHART) return;
      add(layer, "rect", {"class": look, x: left.toFixed(2), y: y, width: Math.max(0.4, right - left).toFixed(2), height: height}, undefined, tip);
    }
    function window_of() {  // that holds the view, and no more of it than can be drawn
      for (const w of data.windows) {
        if (from < w.start - 1 || to > w.end + 1) continue;
        let count = 0;
        for (const rank of w.ranks) for (const a of rank) if (a[1] >= from && a[0] <= to) ++count;
        if (count <= MOST) return w;
      }
      return null;
    }
    function draw_actions(layer, w) {
      w.ranks.forEach(function (rank, r) {
        const y = TOP + ROW * r;
        const seen = rank.filter(function (a) { return a[1] >= from && a[0] <= to; });
        for (const a of seen) if (a[5] > a[4]) box(layer, a[4], a[5], y + 1, ROW - 4, "k-predicted", a[3] + " predicted: " + time(a[5] - a[4]));
        for (const wide of [true, false]) for (const a of seen) {
          if (WIDE.includes(a[2]) !== wide) continue;
          const tip = a[3] + ": " + time(a[1] - a[0]) + " from " + time(a[0]);
          box(layer, a[0], a[1], wide ? y + 6 : y + ROW - 9, wide ? ROW - 16 : 5, "k-" + a[2], tip);
          const width = x(a[1]) - x(a[0]);
          if (wide && width > 7 * a[3].length && x(a[0]) >= LABELS && x(a[1]) <= LABELS + CHART) {
            add(layer, "text", {x: (x(a[0]) + width / 2).toFixed(1), y: y + 19, "text-anchor": "middle", "class": "inside"}, a[3]);
          }
        }
      });
    }
    function draw_messages(layer, w) {  // of which both ends are in view
      for (const m of w.messages) {
        if (m[2] < from || m[3] > to) continue;
        const down = m[1] > m[0], tip = {x: x(m[3]), y: TOP + ROW * m[1] + (down ? 6 : ROW - 9)};
        const tail = {x: x(m[2]), y: TOP + ROW * m[0] + (down ? ROW - 4 : 6)};
        const long = Math.hypot(tip.x - tail.x, tip.y - tail.y), a = 6 * (tip.x - tail.x) / long, b = 6 * (tip.y - tail.y) / long;
        const at = function (dx, dy) { return (tip.x + dx).toFixed(1) + " " + (tip.y + dy).toFixed(1); };
        const d = "M" + tail.x.toFixed(1) + " " + tail.y.toFixed(1) + "L" + at(0, 0) + "L" + at(-a - b / 3, -b + a / 3) + "M" + at(0, 0) +
          "L" + at(-a + b / 3, -b - a / 3);
        add(layer, "path", {"class": "arrow", d: d, "data-rows": m[0] + " " + m[1], "data-times": m[2] + " " + m[3]}, undefined,
            "message: " + time(m[3] - m[2]) + " on its way");
      }
    }
    function draw_shares(layer) {
      const bin = whole / data.bins, n = LOOKS.length;
      data.shares.forEach(function (rank, r) {
        for (let b = Math.max(0, Math.floor(from / bin)); b < data.bins && b * bin < to; ++b) {
          let base = TOP + ROW * (r + 1) - 3;
          for (let k = 0; k < n; ++k) {
            const share = rank[b * n + k];
            if (!share) continue;
            const height = (ROW - 6) * share / 100;
            base -= height;
            box(layer, b * bin, (b + 1) * bin, base.toFixed(2), height.toFixed(2), LOOKS[k], NAMES[k] + ": " + share + " %");
          }
        }
      });
    }
    function draw() {
      const layer = document.createElementNS(NS, "g");
      const by = step(to - from);
      for (let t = Math.ceil(from / by) * by; t <= to; t += by) {
        add(layer, "path", {"class": "grid", d: "M" + x(t).toFixed(1) + " " + TOP + "V" + bottom});
        add(layer, "text", {x: x(t).toFixed(1), y: bottom + 16, "text-anchor": "middle"}, t === 0 ? "0 s" : time(t));
      }
      const w = window_of();
      if (w) draw_actions(layer, w); else draw_shares(layer);
      if (w && messages) draw_messages(layer, w);
      for (const m of data.marks) {
        if (m.at < from - 1 || m.at > to + 1) continue;
        const g = add(layer, "g", {"class": "mark"}, undefined, m.text);
        add(g, "path", {d: "M" + x(m.at).toFixed(1) + " " + (TOP - 6) + "V" + bottom});
        const place = {E: [0, "middle", "E"], C: [6, "start", "C"], X: [18, "start", "end"]}[m.kind];
        add(g, "text", {x: (x(m.at) + place[0]).toFixed(1), y: 14, "text-anchor": place[1]}, place[2]);
      }
      svg.replaceChildren.apply(svg, kept.concat([layer]));
      said.textContent = time(from) + " to " + time(to) + (w ? ", single actions" : ", shares of time");
    }
    function show(a, b) {
      const length = Math.min(whole, Math.max(LEAST, b - a));
      from = Math.max(0, Math.min(a, whole - length));
      to = from + length;
      draw();
    }
    function zoom(factor, at) { show(at - (at - from) * factor, at + (to - at) * factor); }
    const middle = function () { return (from + to) / 2; };
    const actions = {
      "in": function () { zoom(0.5, middle()); },
      out: function () { zoom(2, middle()); },
      left: function () { show(from - (to - from) / 3, to - (to - from) / 3); },
      right: function () { show(from + (to - from) / 3, to + (to - from) / 3); },
      all: function () { show(0, whole); },
      messages: function (button) {
        messages = !messages;
        button.setAttribute("aria-pressed", messages);
        draw();
      },
      window: function (button) {
        const w = data.windows[Number(button.dataset.window)], starts = [];
        for (const rank of w.ranks) for (const a of rank) starts.push(a[0]);
        starts.sort(function (a, b) { return a - b; });
        const most = Math.min(starts.length, ATONCE);
        if (w.end >= whole - 1 && w.start > 0) show(most ? starts[starts.length - most] : w.start, w.end);
        else show(w.start, starts.length > most ? starts[most] : w.end);
      }
    };
    controls.addEventListener("click", function (event) {
      const button = event.target.closest("button");
      if (button) actions[button.dataset.do](button);
    });
    const frame = svg.parentNode;
    frame.addEventListener("keydown", function (event) {
      const keys = {"+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all"};
      const act = keys[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      actions[act]();
    });
    svg.addEventListener("wheel", function (event) {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const place = svg.getBoundingClientRect();
      const at = from + (to - from) * Math.min(1, Math.max(0, ((event.clientX - place.left) * svg.viewBox.baseVal.width / place.width - LABELS) / CHART));
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at);
    }, {passive: false});
    let held = null;
    svg.addEventListener("pointerdown", function (event) { held = {x: event.clientX, from: from, to: to}; svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointermove", function (event) {
      if (!held) return;
      const by = (event.clientX - held.x) * (svg.viewBox.baseVal.width / svg.getBoundingClientRect().width) * (held.to - held.from) / CHART;
      show(held.from - by, held.to - by);
    });
    svg.addEventListener("pointerup", function () { held = null; });
    svg.addEventListener("pointercancel", function () { held = null; });
    controls.hidden = false;
    actions.window(controls.querySelector("[data-window]"));
  }
  document.querySelectorAll("[data-timeline]").forEach(Timeline);
})();
