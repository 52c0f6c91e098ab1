"use strict";
// Draws the snapshots that the monitor sends. All text from records becomes text nodes.
(() => {
  const byId = (id) => document.getElementById(id);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const wanted = new URLSearchParams(location.search).get("incident");
  const state = { job: null, details: null };

  function element(tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function lasting(ms) {
    if (ms === null) return "-";
    return Math.abs(ms) >= 1000 ? `${digits(ms / 1000)} s` : `${digits(ms)} ms`;
  }

  const digits = (value) => Math.abs(value) < 100 ? value.toPrecision(3) : Math.round(value).toLocaleString("en");
  const second = (time) => time.replace(/\.\d+Z$/, "Z");

  const percent = (share) => (share === null ? "-" : `${(100 * share).toFixed(0)} %`);

  function sized(canvas, height) {
    const scale = window.devicePixelRatio || 1, width = canvas.clientWidth || 120;
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    return [context, width];
  }

  function hover(canvas, textAt) {
    canvas.onmousemove = (event) => {
      const box = canvas.getBoundingClientRect(), tip = byId("tip");
      const text = textAt(event.clientX - box.left, event.clientY - box.top);
      tip.hidden = !text;
      tip.textContent = text;
      tip.style.left = `${Math.min(event.clientX + 12, window.innerWidth - 200)}px`;
      tip.style.top = `${event.clientY + 12}px`;
    };
    canvas.onmouseleave = () => { byId("tip").hidden = true; };
  }

  function card(className, what, more) {
    const made = element("article", undefined, `card ${className}`);
    made.append(element("p", what, "what"), more);
    return made;
  }

  function showBlind(reasons) {
    byId("blind").replaceChildren(...reasons.map((one) =>
      card("doubt", `The monitor may not see: ${one.text}`, element("p", one.name, "quiet"))));
  }

  function showIncidents(incidents) {
    const cards = incidents.map((one) => {
      const more = element("p", undefined, "quiet");
      const [first, last] = one.steps;
      more.append(element("span", one.severity, `badge ${one.severity}`),
        `${one.stage} - ${one.job} - steps ${first} to ${last} - since ${second(one.since)}`);
      const made = card(`finding ${one.stage}`, one.text, more);
      const link = element("a", "this incident", "quiet");
      link.href = `?incident=${encodeURIComponent(one.id)}`;
      made.append(link);
      if (one.id === wanted) made.setAttribute("aria-current", "true");
      return made;
    });
    cards.sort((a, b) => b.hasAttribute("aria-current") - a.hasAttribute("aria-current"));
    if (!cards.length) cards.push(card("calm", "Nothing stands out so far.", element("p", "")));
    byId("incidents").replaceChildren(...cards);
  }

  function spark(canvas, lengths) {
    const [context, width] = sized(canvas, 24);
    const values = lengths.map((pair) => pair[1]), most = Math.max(...values, 1e-9);
    context.fillStyle = colour("rate");
    values.forEach((value, place) => {
      const bar = width / values.length, height = 22 * value / most;
      context.fillRect(place * bar, 24 - height, Math.max(bar - 1, 0.5), height);
    });
  }

  function row(job) {
    const made = element("tr"), drawn = element("td"), canvas = element("canvas");
    drawn.append(canvas);
    const cells = [[job.name], [job.servers], [job.gpus, "number"], [job.layout], [lasting(job.step_ms), "number"]];
    made.append(...cells.map(([text, kind]) => element("td", text, kind)), drawn);
    for (const share of [job.waiting, job.coverage, job.confidence]) made.append(element("td", percent(share), "number"));
    made.tabIndex = 0;
    made.dataset.job = job.name;
    made.setAttribute("aria-selected", String(job.name === state.job));
    made.onclick = () => choose(job.name);
    made.onkeydown = (event) => { if (event.key === "Enter") choose(job.name); };
    return [made, () => spark(canvas, job.lengths_ms)];
  }

  function showJobs(jobs) {
    const rows = jobs.map(row);
    document.querySelector("#jobs tbody").replaceChildren(...rows.map(([made]) => made));
    rows.forEach(([, draw]) => draw());
  }

  function showFates(fates) {
    const parts = Object.entries(fates).flatMap(([fate, count]) =>
      [element("dt", fate), element("dd", count.toLocaleString("en"))]);
    byId("fates").replaceChildren(...parts);
  }

  function showExporters(exporters) {
    const rows = exporters.map((one) => {
      const made = element("tr");
      const cells = [[one.name || "-"], [second(one.seen)], [lasting(one.offset_ms), "number"],
        [one.rate.toFixed(1), "number"], [one.lost.toLocaleString("en"), "number"]];
      made.append(...cells.map(([text, kind]) => element("td", text, kind)));
      return made;
    });
    byId("exporters").tBodies[0].replaceChildren(...rows);
  }

  function mixed(share) {
    const stops = ["cold", "warm", "hot"].map((name) => colour(name).match(/\w\w/g).map((part) => parseInt(part, 16)));
    const place = Math.min(share, 1) * 2, low = Math.min(Math.floor(place), 1);
    return `rgb(${stops[low].map((value, i) => value + (stops[low + 1][i] - value) * (place - low)).join(",")})`;
  }

  function drawDelays(map) {
    const canvas = byId("delays");
    if (!map) { byId("delays-text").textContent = "No steps were found in the last window."; return; }
    const measure = map.measures.work, line = Math.max(6, Math.min(18, 400 / map.servers.length));
    const [context, width] = sized(canvas, line * map.servers.length + 4);
    const bytes = Uint8Array.from(atob(measure.levels), (letter) => letter.charCodeAt(0));
    const levels = new Uint16Array(bytes.buffer), left = line >= 12 ? 90 : 0;
    const cell = (width - left) / map.columns;
    const delay = (r, c) => levels[r * map.columns + c] * measure.unit_ms;
    map.servers.forEach((server, r) => {
      context.fillStyle = colour("ink");
      if (left) context.fillText(server, 0, (r + 0.5) * line, left - 6);
      for (let c = 0; c < map.columns; c += 1) {
        context.fillStyle = mixed(delay(r, c) / Math.max(measure.largest_ms, 1e-9));
        context.fillRect(left + c * cell, r * line, Math.max(cell - 0.5, 0.5), line - 1);
      }
    });
    hover(canvas, (x, y) => {
      const r = Math.floor(y / line), c = Math.floor((x - left) / cell);
      if (c < 0 || c >= map.columns || !map.servers[r]) return "";
      return `${map.servers[r]}, step ${map.first + c * map.merged}\n${lasting(delay(r, c))} longer than usual`;
    });
    byId("delays-text").textContent = "Computation of each server, by steps: how much longer than usual it takes "
      + `(steps ${map.first} to ${map.first + map.columns * map.merged - 1}; darkest: ${lasting(measure.largest_ms)}).`;
  }

  function drawTimeline(shown) {
    const canvas = byId("timeline"), line = 18;
    if (!shown) { byId("timeline-text").textContent = "No timeline in the last window."; return; }
    const [context, width] = sized(canvas, line * shown.rows.length + 4);
    const left = 110, scale = (width - left) / (shown.length_ms * 1000), spans = shown.spans;
    const names = { compute: "work", wait: "wait", waiting: "wait", pp: "pp", dp: "dp" };
    shown.rows.forEach((one, r) => {
      context.fillStyle = colour(one.culprit ? "finding" : "ink");
      context.fillText(one.address, 0, (r + 0.5) * line, left - 6);
    });
    spans.row.forEach((r, i) => {
      if (r < 0) return;
      context.fillStyle = colour(names[shown.kinds[spans.kind[i]]] || "other");
      context.fillRect(left + spans.start[i] * scale, r * line + 2, Math.max(spans.length[i] * scale, 0.6), line - 4);
    });
    hover(canvas, (x, y) => {
      const time = (x - left) / scale, r = Math.floor(y / line);
      const i = spans.row.findIndex((own, k) => own === r && spans.start[k] <= time && time <= spans.start[k] + spans.length[k]);
      return i < 0 ? "" : `${shown.rows[r].address}: ${shown.kinds[spans.kind[i]]}, step ${spans.step[i]}\n${lasting(spans.length[i] / 1000)}`;
    });
    byId("timeline-text").textContent = `Ranks of the job over ${lasting(shown.length_ms)}: computation grey, `
      + "waiting pale, pipeline blue, data-parallel traffic orange.";
  }

  function draw() {
    if (!state.details) return;
    byId("details").hidden = false;
    byId("chosen").textContent = state.details.job;
    drawDelays(state.details.delays);
    drawTimeline(state.details.timeline);
  }

  async function choose(job) {
    state.job = job;
    for (const one of document.querySelectorAll("#jobs tbody tr")) one.setAttribute("aria-selected", String(one.dataset.job === job));
    const answer = await fetch(`jobs/${encodeURIComponent(job)}`);
    if (!answer.ok) return;
    state.details = await answer.json();
    draw();
  }

  function show(snapshot) {
    const link = byId("link");
    link.textContent = "live";
    link.className = "live";
    byId("time").textContent = snapshot.watermark
      ? `records up to ${second(snapshot.watermark)}, diagnosed up to ${second(snapshot.cursor || "-")}` : "no records yet";
    showBlind(snapshot.blind);
    showIncidents(snapshot.incidents);
    showJobs(snapshot.jobs);
    const hiccups = Object.entries(snapshot.hiccups).map(([job, count]) => [`hiccups of ${job}, not sent`, count]);
    showFates({ ...snapshot.fates, ...Object.fromEntries(hiccups) });
    showExporters(snapshot.exporters);
    const named = snapshot.jobs.map((job) => job.name);
    const worst = snapshot.incidents.map((one) => one.job).find((job) => named.includes(job));
    if (!named.includes(state.job)) state.job = worst || named[0] || null;
    if (state.job && snapshot.cursor !== state.cursor) { state.cursor = snapshot.cursor; choose(state.job); }
  }

  const source = new EventSource("events");
  source.addEventListener("snapshot", (event) => show(JSON.parse(event.data)));
  source.onerror = () => { byId("link").textContent = "not connected"; byId("link").className = "bad"; };
  window.addEventListener("resize", draw);
})();
