// SPDX-License-Identifier: Apache-2.0
// The sliders: asks the simulator, which runs beside the page, and shows what it answers.
"use strict";
(function () {
  const SLOW = 1500;  // ms: who is asked longer than that is replaced when there is a new question

  function bytes_of(id) {
    const text = atob(document.getElementById(id).textContent);
    const packed = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) packed[i] = text.charCodeAt(i);
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }
  async function text_of(id) { return new TextDecoder().decode(await bytes_of(id)); }

  // In a worker, behind the module's loader: a question in, an answer out.
  const WORK = `
    let ready = null;
    onmessage = async function (event) {
      try {
        if (!ready) {
          const compiled = event.data.module;
          ready = hetpipe_simulator({
            instantiateWasm: function (imports, done) {
              WebAssembly.instantiate(compiled, imports).then(function (instance) { done(instance); });
              return {};
            }
          });
        }
        const simulator = await ready;
        const size = simulator.lengthBytesUTF8(event.data.request) + 1;
        const place = simulator._malloc(size);
        simulator.stringToUTF8(event.data.request, place, size);
        const before = performance.now();
        const answer = simulator.UTF8ToString(simulator._hetpipe_answer(place));
        simulator._free(place);
        postMessage({answer: answer, milliseconds: performance.now() - before});
      } catch (error) {
        postMessage({failed: String(error)});
      }
    };`;

  // One question at a time; of those that wait only the last.
  function Simulator(module, loader) {
    const source = URL.createObjectURL(new Blob([loader, "\n", WORK], {type: "text/javascript"}));
    let worker = null, asked = null, waiting = null, since = 0;
    function next() {
      if (!waiting) return;
      asked = waiting;
      waiting = null;
      since = performance.now();
      if (!worker) {
        worker = new Worker(source);
        worker.onmessage = function (event) {
          const done = asked;
          asked = null;
          if (event.data.failed) { worker.terminate(); worker = null; }
          if (!waiting) done.then(event.data);
          next();
        };
        worker.onerror = function (event) { worker.onmessage({data: {failed: event.message || "the simulator does not start"}}); };
      }
      worker.postMessage({module: module, request: asked.request});
    }
    this.ask = function (request, then) {
      waiting = {request: request, then: then};
      if (asked && performance.now() - since > SLOW) { worker.terminate(); worker = null; asked = null; }
      if (!asked) next();
    };
  }

  function element(parent, name, attributes, text) {
    const e = document.createElement(name);
    for (const key in attributes) e.setAttribute(key, attributes[key]);
    if (text !== undefined) e.textContent = text;
    parent.appendChild(e);
    return e;
  }
  function number(parent, exact, shown) { return element(parent, "data", {value: String(exact)}, shown); }
  function percent(x) { return (100 * x).toFixed(1) + " %"; }
  function signed(x) { return (x < 0 ? "\u2212" : "+") + Math.abs(100 * x).toFixed(1) + " %"; }
  function bytes(x) {
    for (const unit of ["B", "kB", "MB", "GB"]) { if (x < 1000) return Number(x.toPrecision(3)) + " " + unit; x /= 1000; }
    return Number(x.toPrecision(3)) + " TB";
  }

  function Panel(form, simulator, base) {
    const id = form.dataset.whatIf;
    const said = document.getElementById(id + "-what-if-said");
    const shown = document.getElementById(id + "-what-if-answer");
    const factors = form.dataset.factors.split(" ");
    const sliders = Array.from(form.querySelectorAll("input[type=range]"));
    const boxes = Array.from(form.querySelectorAll("input[type=checkbox]"));
    let today = null;

    function worth(slider) { return slider.dataset.change ? factors[Number(slider.value)] : slider.value; }
    function label_all() {
      for (const s of sliders) {
        const text = s.dataset.change ? "\u00d7 " + worth(s) : s.value;
        s.nextElementSibling.textContent = text;
        s.setAttribute("aria-valuetext", s.dataset.change ? worth(s) + " times" : s.value);
      }
    }
    function changes() {
      const words = [];
      for (const s of sliders) {
        if (s.value === s.defaultValue) continue;
        words.push(s.dataset.change ? s.dataset.change + " x" + worth(s) : s.dataset.set + " = " + s.value);
      }
      const gone = boxes.filter(function (b) { return !b.checked; });
      gone.sort(function (a, b) { return Number(b.dataset.index) - Number(a.dataset.index); });  // later ones move up
      for (const b of gone) words.push("-" + b.dataset.node + ":" + b.dataset.index);
      return words.join(", ");
    }
    function box_of(device) {  // as it is called without those that are left out
      const colon = device.lastIndexOf(":");
      const left = boxes.filter(function (b) { return b.dataset.node === device.slice(0, colon) && b.checked; });
      return left[Number(device.slice(colon + 1))];
    }
    function command(asked) {
      return form.dataset.command + (asked ? " --what-if '" + asked.replaceAll("'", "'\\''") + "'" : "");
    }
    function stages(parent, answer) {
      const frame = element(parent, "div", {"class": "scroll", role: "region", tabindex: "0", "aria-label": "What every device does"});
      const table = element(frame, "table");
      element(table, "caption", {}, "What every device does, simulated");
      const head = element(element(table, "thead"), "tr");
      for (const title of ["device", "worker, stage", "busy", "bubble", "communication", "peak memory", "of"]) element(head, "th", {scope: "col"}, title);
      const body = element(table, "tbody");
      for (const stage of answer.stages) {
        const row = element(body, "tr"), box = boxes.length ? box_of(stage.device) : null;
        element(row, "th", {scope: "row"}, box ? box.dataset.node + ":" + box.dataset.index + " " + box.dataset.kind : stage.device);
        element(row, "td", {}, stage.virtual_worker + ", " + stage.stage + (stage.replica ? ", replica " + stage.replica : ""));
        const busy = element(row, "td", {"class": "n"});
        const bar = element(busy, "div", {"class": "shares", "aria-hidden": "true"});
        for (const part of [["p-compute", stage.busy], ["p-bubble", stage.bubble], ["p-transfer", stage.communication]]) {
          element(bar, "i", {"class": part[0]}).style.flexGrow = part[1].toFixed(4);
        }
        number(busy, stage.busy, percent(stage.busy));
        for (const share of [stage.bubble, stage.communication]) number(element(row, "td", {"class": "n"}), share, percent(share));
        number(element(row, "td", {"class": "n"}), stage.peak_memory, bytes(stage.peak_memory));
        const most = box ? Number(box.dataset.memory) : 0;
        element(row, "td", {"class": "n"}, !most ? "" : bytes(most) + (stage.peak_memory > most ? ": too much" : ""));
      }
    }
    function show(asked, reply) {
      shown.replaceChildren();
      shown.hidden = false;
      form.dataset.asked = asked;
      form.dataset.milliseconds = reply.milliseconds;
      const problems = reply.failed ? [{where: "simulator", text: reply.failed}] : JSON.parse(reply.answer).problems;
      if (problems) {
        said.textContent = "That cannot be simulated.";
        for (const p of problems) element(shown, "p", {"class": "note"}, (p.where ? p.where + ": " : "") + p.text);
      } else {
        const text = JSON.parse(reply.answer).document, answer = JSON.parse(text);
        if (!asked) today = answer.throughput;
        said.textContent = "";
        const lead = element(said, "strong");
        number(lead, answer.throughput, Number(answer.throughput.toPrecision(4)) + " samples/s");
        let more = asked && today ? ", " + signed(answer.throughput / today - 1) + " against the plan as it is" : ", the plan as it is";
        const plan = answer.what_if;
        if (plan && plan.planned_anew) more += ". Planned anew, with minibatch " + plan.minibatch + ", Nm = " + plan.in_flight + ("clock_distance" in plan ? " and D = " + plan.clock_distance : "");
        said.appendChild(document.createTextNode(more + ". " + answer.global_batch + " samples every "));
        number(said, answer.iteration_time, Number((1000 * answer.iteration_time).toPrecision(4)) + " ms");
        said.appendChild(document.createTextNode("."));
        stages(shown, answer);
        const details = element(shown, "details");
        element(details, "summary", {}, "The whole answer (JSON)");
        element(element(details, "pre", {tabindex: "0", "data-document": ""}), "code", {}, text);
      }
      element(shown, "p", {}, "The command with the same numbers:");
      element(element(shown, "pre", {tabindex: "0", "data-command": ""}), "code", {}, command(asked));
      form.removeAttribute("aria-busy");
      form.dispatchEvent(new CustomEvent("answered"));
    }
    function ask() {
      label_all();
      const asked = changes();
      form.setAttribute("aria-busy", "true");
      if (boxes.some(function (b) { return !b.checked; })) said.textContent = "Planning ...";
      simulator.ask(JSON.stringify(asked ? Object.assign({}, base, {changes: asked}) : base), function (reply) { show(asked, reply); });
    }
    form.addEventListener("input", ask);
    form.addEventListener("reset", function () { setTimeout(ask); });
    form.addEventListener("submit", function (event) { event.preventDefault(); });
    form.hidden = false;
    ask();
  }

  async function start() {
    const forms = document.querySelectorAll("[data-what-if]");
    if (!forms.length) return;
    try {
      const module = await WebAssembly.compile(await bytes_of("simulator-module"));
      const loader = await text_of("simulator-loader");
      for (const form of forms) {
        const base = JSON.parse(await text_of(form.dataset.whatIf + "-what-if-request"));
        Panel(form, new Simulator(module, loader), base);
      }
    } catch (error) {
      for (const form of forms) document.getElementById(form.dataset.whatIf + "-what-if-said").textContent = "This browser cannot run the simulator: " + error;
    }
  }
  start();
})();
