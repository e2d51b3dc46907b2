// SPDX-License-Identifier: Apache-2.0
// What is asked of a report in a browser (browser_checks.sh puts it in the page's head): every control is used; no text is outside of
// its box or below a contrast of 4.5:1, on light and on dark; what is shown of a number is its exact value, rounded; what the runs'
// documents hold is there. The answer becomes the page's title.
"use strict";
const errors = [];
const complain = text => { if (errors.length < 12 && !errors.includes(text)) errors.push(text); };
addEventListener("error", event => complain(event.message));
addEventListener("unhandledrejection", event => complain(String(event.reason)));
console.error = console.warn = (...words) => complain(words.join(" "));
const opened = performance.now();

// --- contrast --------------------------------------------------------------------------------------------------------------------
const kContrast = 4.5;
function colour(text) {  // [red, green, blue, opacity], or null
  const m = text.match(/^rgba?\(([^)]+)\)$/);
  if (!m) return null;
  const parts = m[1].split(/[\s,/]+/).map(Number);
  return parts.length === 3 ? parts.concat(1) : parts;
}
const over = (a, b) => [0, 1, 2].map(i => a[3] * a[i] + (1 - a[3]) * b[i]).concat(1);
function luminance(c) {
  const linear = c.slice(0, 3).map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}
function contrast(a, b) {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}
function background(element) {  // of all that is behind it; the canvas is that of the colour scheme
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    const c = colour(getComputedStyle(e).backgroundColor);
    if (!c || c[3] === 0) continue;
    layers.push(c);
    if (c[3] === 1) break;
  }
  let behind = [255, 255, 255, 1];
  for (const c of layers.reverse()) behind = over(c, behind);
  return behind;
}
function behind_svg(text) {  // the last shape drawn before it, where its middle is
  const box = text.getBBox(), x = box.x + box.width / 2, y = box.y + box.height / 2;
  let found = null;
  for (const shape of text.ownerSVGElement.querySelectorAll("rect")) {
    if (!(shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
    const b = shape.getBBox();
    if (x >= b.x && x <= b.x + b.width && y >= b.y && y <= b.y + b.height && getComputedStyle(shape).fill !== "none") found = shape;
  }
  return found;
}
function check_contrast(scheme, texts) {
  let least = Infinity;
  const judge = (ink, paper, what) => {
    if (!ink || !paper) { complain("unknown colour: " + what); return; }
    const ratio = contrast(over(ink, paper), paper);
    least = Math.min(least, ratio);
    if (ratio < kContrast) complain(ratio.toFixed(2) + ":1 on " + scheme + ": " + what.trim().slice(0, 40));
  };
  const papers = new Map();
  const paper = element => { if (!papers.has(element)) papers.set(element, background(element)); return papers.get(element); };
  for (const t of texts) judge(colour(getComputedStyle(t.parent).color), paper(t.parent), t.text);
  for (const text of document.querySelectorAll("svg text")) {
    const shape = behind_svg(text);
    judge(colour(getComputedStyle(text).fill), shape ? colour(getComputedStyle(shape).fill) : paper(text.ownerSVGElement), text.textContent);
  }
  return least;
}
function use_dark() {  // whatever the browser prefers
  let found = 0;
  for (const sheet of document.styleSheets) for (const rule of sheet.cssRules) {
    if (rule.media && rule.media.mediaText.includes("dark")) { rule.media.mediaText = "all"; ++found; }
  }
  if (!found) complain("there are no dark colours");
}

// --- places ----------------------------------------------------------------------------------------------------------------------
function shown_texts() {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest("svg, script, style, .skip") || !parent.checkVisibility()) continue;
    texts.push({node: node, parent: parent, text: node.data});
  }
  return texts;
}
function check_places(texts) {
  const range = document.createRange();
  for (const t of texts) {
    // Of everything around it that has an extent of its own, until something scrolls, which may be larger inside.
    range.selectNodeContents(t.node);
    const inside = range.getBoundingClientRect();
    for (let box = t.parent; box !== document.body; box = box.parentElement) {
      const style = getComputedStyle(box);
      if (style.display.startsWith("inline")) continue;
      if (style.overflowX !== "visible") break;
      const b = box.getBoundingClientRect();
      if (inside.left >= b.left - 1 && inside.right <= b.right + 1 && inside.top >= b.top - 2 && inside.bottom <= b.bottom + 2) continue;
      complain("outside of its box: " + t.text.trim().slice(0, 40));
      break;
    }
  }
  for (const text of document.querySelectorAll("svg text")) {
    const b = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;
    if (b.x < -1 || b.x + b.width > view.width + 1 || b.y < -1 || b.y + b.height > view.height + 1) {
      complain("outside of its drawing: " + text.textContent);
    }
    const shape = text.classList.contains("inside") && behind_svg(text);
    if (shape && b.width > shape.getBBox().width + 1) complain("wider than what it stands in: " + text.textContent);
  }
  const wide = document.documentElement.scrollWidth - innerWidth;
  if (wide > 0) complain("wider than the window by " + wide);
}

// --- numbers ---------------------------------------------------------------------------------------------------------------------
const kUnits = {"": 1, "%": 0.01, us: 1e-6, ms: 1e-3, s: 1, B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, k: 1e3, M: 1e6, G: 1e9, T: 1e12,
  "samples/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9};
function check_numbers() {
  let count = 0;
  for (const data of document.querySelectorAll("data")) {
    const exact = Number(data.value), text = data.textContent.trim().replace("\u2212", "-");
    ++count;
    const long = text.match(/^(?:(\d+) h )?(\d+) m(?: (\d+) s)?$/);
    if (long) {
      const seconds = 3600 * Number(long[1] || 0) + 60 * Number(long[2]) + Number(long[3] || 0);
      if (Math.abs(seconds - exact) > (long[1] ? 60 : 0.51)) complain(text + " is shown of " + exact);
      continue;
    }
    const m = text.match(/^([+-]?\d+(?:\.(\d+))?(?:e([+-]\d+))?)(?: ?(\S+))?$/);
    const unit = m && (kUnits[m[4] || ""] || (/^\D/.test(m[4]) && 1));
    if (!m || !unit || !Number.isFinite(exact)) { complain("no number: " + text + ", " + data.value); continue; }
    const digit = 10 ** (Number(m[3] || 0) - (m[2] || "").length) * unit;
    if (Math.abs(Number(m[1]) * unit - exact) > 0.5001 * digit + 1e-12) complain(text + " is shown of " + exact);
  }
  if (count < 20) complain("only " + count + " numbers");
  return count;
}
function check_results() {  // every number of the documents stands in its panel
  const documents = Array.from(document.querySelectorAll("script[data-result]"), e => JSON.parse(e.textContent));
  let count = 0;
  documents.forEach((json, run) => {
    const values = name => new Set(Array.from(document.querySelectorAll("#run" + run + "-" + name + " data"), d => Number(d.value)));
    const panels = {time: values("time"), links: values("links"), memory: values("memory"), learning: values("learning"), limit: values("limit")};
    const has = (panel, value, what) => {
      ++count;
      if (!panels[panel].has(value)) complain("run" + run + "-" + panel + " lacks " + what + " = " + value);
    };
    const everywhere = new Set(Array.from(document.querySelectorAll("data"), d => Number(d.value)));
    for (const key of ["throughput", "iteration_time", "test_accuracy", "test_loss"]) {
      if (!(key in json)) continue;
      ++count;
      if (!everywhere.has(json[key])) complain("the page lacks " + key + " = " + json[key]);
    }
    for (const rank of json.ranks || []) {
      for (const key of ["forward", "backward", "update", "bubble", "transfer", "server_wait", "data", "evaluation"]) has("time", rank.seconds[key], key);
      for (const key of ["forward", "backward", "pushed", "pulled"]) has("links", rank.bytes[key], key);
      has("memory", rank.peak_memory, "peak_memory");
      for (const kind in rank.memory) has("memory", rank.memory[kind], kind);
    }
    for (const e of json.evaluations || []) for (const key of ["label", "samples", "seconds", "test_loss", "test_accuracy"]) has("learning", e[key], key);
    for (const stage of json.stages || []) has("memory", stage.peak_memory, "peak_memory");
  });
  if (documents.length && count < 5) complain("only " + count + " numbers of the documents");
  return count;
}

// Every message that is drawn leaves where a rank began to send one, and arrives in another row where one ends to be received.
function check_messages() {
  let count = 0;
  for (const button of document.querySelectorAll("[data-do=messages]")) {
    const controls = button.parentElement, id = controls.dataset.timeline;
    if (button.getAttribute("aria-pressed") !== "true") button.click();
    const data = JSON.parse(document.getElementById(id + "-timeline-data").textContent);
    const ends = {S: data.ranks.map(() => new Set()), V: data.ranks.map(() => new Set())};
    for (const w of data.windows) w.ranks.forEach((flat, r) => {
      for (let i = 0, start = 0; i < flat.length; i += 7) {
        start += flat[i];
        const letter = String.fromCharCode(flat[i + 2]);
        if (letter === "S") ends.S[r].add(start);
        if (letter === "V") ends.V[r].add(start + flat[i + 1]);
      }
    });
    const before = count;
    for (const window_button of controls.querySelectorAll("[data-window]")) {
      window_button.click();
      for (const arrow of document.querySelectorAll("#" + id + "-actions path.arrow")) {
        const [from, to] = arrow.dataset.rows.split(" ").map(Number), [sent, received] = arrow.dataset.times.split(" ").map(Number);
        const within = 1 + data.clocks[from] + data.clocks[to];  // us, of both clocks, and of rounding
        ++count;
        if (from === to || !ends.S[from].has(sent) || !ends.V[to].has(received)) complain("a message of nobody: " + arrow.dataset.rows + ", " + arrow.dataset.times);
        if (received < sent - within) complain("a message arrives before it was sent: " + arrow.dataset.times);
      }
    }
    if (count === before) complain("no message is drawn in " + id);
  }
  return count;
}

addEventListener("load", () => {
  const took = performance.now() - opened;
  let used = 0;
  for (const control of document.querySelectorAll("button, summary, input")) {
    for (let i = 0; i < 3; ++i) { control.click(); ++used; }
  }
  const messages = check_messages();
  const texts = shown_texts();
  const numbers = check_numbers(), known = check_results();
  check_places(texts);
  let least = check_contrast("light", texts);
  use_dark();
  least = Math.min(least, check_contrast("dark", texts));
  if (used <= 20) complain("only " + used + " uses of controls");
  document.title = (errors.length === 0 ? "all is well: " : "WRONG: " + errors.join("; ") + " -- ") +
    [used + " uses of controls", texts.length + " texts", least.toFixed(1) + ":1", numbers + " numbers", known + " of documents", messages + " messages",
     took.toFixed(0) + " ms to open"].join(", ");
});
