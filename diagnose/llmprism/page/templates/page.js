"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const findings = data.findings;
  let chosen = findings.length ? findings[0] : null;

  // ---- colours, text, time -------------------------------------------------------------------
  const theme = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const font = (size, bold) => `${bold ? "600 " : ""}${size}px system-ui, "Segoe UI", Roboto, sans-serif`;
  const channels = hex => [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
  const mix = (a, b, part) => "rgb(" + a.map((x, i) => Math.round(x + (b[i] - x) * part)).join(",") + ")";

  /** A function from a fraction in [0, 1] to the colour of a delay. */
  function ramp() {
    const [cold, warm, hot] = ["cold", "warm", "hot"].map(name => channels(theme(name)));
    return part => (part < 0.5 ? mix(cold, warm, 2 * part) : mix(warm, hot, 2 * part - 1));
  }

  /** Three significant digits, with thousands apart. */
  const rounded = value => (Math.abs(value) >= 1000 ? Number(value.toPrecision(3)).toLocaleString("en")
    : Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3));
  function lasting(ms) {
    if (Math.abs(ms) >= 1000) return rounded(ms / 1000) + " s";
    return Math.abs(ms) >= 1 || ms === 0 ? rounded(ms) + " ms" : rounded(ms * 1000) + " us";
  }
  function rate(gbps) {
    if (gbps >= 1 || gbps === 0) return rounded(gbps) + " Gbit/s";
    return gbps >= 1e-3 ? rounded(gbps * 1e3) + " Mbit/s" : rounded(gbps * 1e6) + " kbit/s";
  }
  /** Wall-clock time of a moment in ms since the origin; plain seconds for other clocks. */
  function clock(ms, digits) {
    const at = data.origin_ms + ms;
    if (at < 1e11) return (at / 1000).toFixed(digits) + " s";
    const whole = new Date(Math.floor(at + 1e-6));
    return whole.toISOString().slice(11, digits ? 20 + Math.min(digits, 3) : 19);
  }
  const utc = (ms, digits = 3) => clock(ms, digits) + (data.origin_ms < 1e11 ? "" : " UTC");

  // ---- canvas and tip ------------------------------------------------------------------------
  const tip = document.getElementById("tip");
  function showTip(event, text) {
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 6);
    const below = event.clientY + 16;
    const top = below + box.height > window.innerHeight ? event.clientY - box.height - 12 : below;
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = Math.max(4, top) + "px";
  }
  /** Set the size of a canvas; returns its context and its width in CSS pixels. */
  function sized(canvas, height) {
    const width = Math.max(canvas.parentElement.clientWidth - padding(canvas.parentElement), 120);
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.textBaseline = "middle";
    return [context, width];
  }
  function padding(element) {
    const style = getComputedStyle(element);
    return parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
  }
  function hover(canvas, text) {
    const point = event => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const move = event => showTip(event, text(...point(event)));
    canvas.addEventListener("pointermove", move);
    canvas.addEventListener("pointerdown", move);
    canvas.addEventListener("pointerleave", () => showTip(null, ""));
  }
  /** Room for labels: as wide as the longest, at most a third of the width. */
  function labelWidth(context, labels, width) {
    context.font = font(12, true);
    const longest = Math.max(...labels.map(label => context.measureText(label).width), 0);
    return Math.ceil(Math.min(longest + 10, width / 3));
  }
  function fitted(context, text, room) {
    if (context.measureText(text).width <= room) return text;
    let length = text.length;
    while (length > 1 && context.measureText(text.slice(0, length) + "...").width > room) length--;
    return text.slice(0, length) + "...";
  }
  function nice(range, count) {
    const rough = range / Math.max(count, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    return [1, 2, 5, 10].map(by => by * power).find(size => size >= rough);
  }
  const AXIS = 36;  // height of a time axis with its title
  /** Draw the title of an axis below its labels. */
  function axisTitle(context, text, left, right, top) {
    context.fillStyle = theme("muted");
    context.font = font(11);
    context.textAlign = "center";
    context.fillText(text, (left + right) / 2, top + 27);
    context.textAlign = "left";
  }
  const timeTitle = () => (data.origin_ms < 1e11 ? "time [s]" : "time (UTC)");
  /** Draw a time axis below a chart; times in ms since the origin. */
  function timeAxis(context, first, last, left, right, top) {
    const step = nice(last - first, (right - left) / 110);
    const digits = step >= 1000 ? 0 : 3;
    context.fillStyle = theme("muted");
    context.font = font(11);
    context.textAlign = "center";
    const phase = data.origin_ms % step;
    for (let at = Math.ceil((first + phase) / step) * step - phase; at <= last; at += step) {
      const x = left + ((at - first) / (last - first)) * (right - left);
      context.fillRect(Math.round(x), top, 1, 4);
      const half = context.measureText(clock(at, digits)).width / 2;
      if (x - half >= left - 8 && x + half <= right + 2) context.fillText(clock(at, digits), x, top + 12);
    }
    context.textAlign = "left";
  }
  function shade(context, first, last, left, right, top, height) {
    if (!chosen || chosen.end_ms < first || chosen.start_ms > last) return;
    const x = at => left + ((Math.min(Math.max(at, first), last) - first) / (last - first)) * (right - left);
    context.fillStyle = theme("finding");
    context.globalAlpha = 0.13;
    context.fillRect(x(chosen.start_ms), top, Math.max(2, x(chosen.end_ms) - x(chosen.start_ms)), height);
    context.globalAlpha = 1;
  }
  const section = name => document.getElementById(name);
  const note = (name, text) => {
    const place = section(name).querySelector("[data-note]");
    if (place) place.textContent = text;
  };
  const charts = [];

  // ---- delays: servers by steps --------------------------------------------------------------
  function unpacked(text) {
    const bytes = atob(text);
    const levels = new Uint16Array(bytes.length / 2);
    for (let i = 0; i < levels.length; i++) levels[i] = bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8);
    return levels;
  }
  const UNKNOWN = 65535;
  const NAMES = { work: "work", transfers: "transfers", step: "whole step" };
  const MEANING = {
    work: "Work: computation of a rank between its messages.",
    transfers: "Transfers: time in which a NIC sends or receives.",
    step: "Whole step: all ranks of a job wait for each other, so their steps are long together.",
  };

  function heatMap() {
    const canvas = section("heat").querySelector("canvas");
    const frame = section("heat").querySelector(".scroll");
    const select = section("heat").querySelector("[data-job]");
    const buttons = [...section("heat").querySelectorAll("[data-measure]")];
    let map = data.maps[0], measure = "work", plot = null;
    data.maps.forEach((one, at) => select.add(new Option(one.job, at)));
    select.hidden = data.maps.length < 2;
    const grids = new Map();
    const grid = () => {
      const key = map.job + "\n" + measure;
      if (!grids.has(key)) grids.set(key, unpacked(map.measures[measure].levels));
      return grids.get(key);
    };
    select.addEventListener("change", () => { map = data.maps[select.value]; draw(); });
    buttons.forEach(button => button.addEventListener("click", () => { measure = button.dataset.measure; draw(); }));

    function follow() {
      const at = chosen ? data.maps.findIndex(one => one.job === chosen.job) : 0;
      if (at < 0) return;
      map = data.maps[at];
      select.value = at;
      measure = (chosen && map.best[chosen.number]) || "work";
    }
    const outlined = () => (chosen && chosen.job === map.job ? chosen : null);

    function draw() {
      const rows = map.servers.length, cell = rows <= 24 ? 20 : rows <= 80 ? 12 : 6;
      const top = 24, height = top + rows * cell + 4;
      const [context, width] = sized(canvas, height);
      const left = labelWidth(context, map.servers, width), across = (width - left - 3) / map.columns;
      const one = map.measures[measure];
      const levels = grid(), colour = ramp(), table = Array.from({ length: 65 }, (_, i) => colour(i / 64));
      const gap = across > 5 && cell > 8 ? 1 : 0;
      for (let row = 0; row < rows; row++)
        for (let column = 0; column < map.columns; column++) {
          const level = levels[row * map.columns + column];
          if (level === UNKNOWN) continue;
          context.fillStyle = table[Math.round(Math.min(1, (level * one.unit_ms) / one.scale_ms) * 64)];
          context.fillRect(left + column * across, top + row * cell, across - gap + (gap ? 0 : 0.5), cell - gap);
        }
      labels(context, left, top, cell, across);
      outline(context, left, top, cell, across);
      plot = { left, top, cell, across };
      buttons.forEach(button => button.setAttribute("aria-pressed", button.dataset.measure === measure));
      section("heat").querySelector("[data-largest]").textContent =
        lasting(one.scale_ms) + (one.largest_ms > one.scale_ms ? ` or more, up to ${lasting(one.largest_ms)}` : "");
      section("heat").querySelector("[data-outline]").hidden = !outlined();
      const more = map.omitted ? ` ${map.omitted} servers with small delays are not shown.` : "";
      const merged = map.merged > 1 ? ` A column is the slowest of ${map.merged} steps.` : "";
      note("heat", `${map.job}: time beyond the usual time of the same NIC (lower quartile of its steps; ` +
        `a step takes ${lasting(map.step_ms)}). ${MEANING[measure]}${merged}${more}`);
    }
    function labels(context, left, top, cell, across) {
      const culprits = new Set(outlined() ? chosen.servers : []);
      const every = Math.ceil(12 / cell);
      map.servers.forEach((name, row) => {
        if (row % every && !culprits.has(name)) return;
        context.font = font(Math.min(12, Math.max(cell, 10)), culprits.has(name));
        context.fillStyle = theme(culprits.has(name) ? "finding" : "ink");
        context.fillText(fitted(context, name, left - 6), 0, top + (row + 0.5) * cell - 0.5);
      });
      context.font = font(11);
      context.fillStyle = theme("muted");
      context.textAlign = "center";
      const stride = Math.max(1, nice(map.columns * map.merged, (map.columns * across) / 46));
      context.textAlign = "left";
      context.fillText("step", 0, 10);
      context.textAlign = "center";
      for (let step = Math.ceil(map.first / stride) * stride; step < map.first + map.columns * map.merged; step += stride)
        context.fillText(step, left + ((step - map.first) / map.merged + 0.5) * across, 10);
      context.textAlign = "left";
    }
    function outline(context, left, top, cell, across) {
      const finding = outlined();
      if (!finding || finding.first < 0) return;
      const from = Math.max(0, Math.floor((finding.first - map.first) / map.merged));
      const to = Math.min(map.columns - 1, Math.floor((finding.last - map.first) / map.merged));
      if (to < from) return;
      let rows = map.servers.map((name, row) => (finding.servers.includes(name) ? row : -1)).filter(row => row >= 0);
      context.strokeStyle = theme("finding");
      context.lineWidth = 2.5;
      context.setLineDash(rows.length && finding.direct ? [] : [5, 3]);
      if (!rows.length) rows = map.servers.map((_, row) => row);
      for (let at = 0; at < rows.length; at++) {
        const begin = rows[at];
        while (rows[at + 1] === rows[at] + 1) at++;
        context.strokeRect(left + from * across - 0.5, top + begin * cell - 1,
          (to - from + 1) * across, (rows[at] - begin + 1) * cell + 1);
      }
      context.setLineDash([]);
    }
    hover(canvas, (x, y) => {
      const column = Math.floor((x - plot.left) / plot.across), row = Math.floor((y - plot.top) / plot.cell);
      if (column < 0 || column >= map.columns || row < 0 || row >= map.servers.length) return "";
      const step = map.first + column * map.merged, last = Math.min(step + map.merged - 1, map.first + map.start_ms.length * map.merged - 1);
      const lines = [`${map.servers[row]}, step ${step}${last > step ? " to " + last : ""}`, `from ${utc(map.start_ms[column])}`];
      const level = grid()[row * map.columns + column];
      lines.push(level === UNKNOWN ? "no step here" :
        `${NAMES[measure]}: ${lasting(level * map.measures[measure].unit_ms)} longer than usual`);
      return lines.join("\n");
    });
    charts.push({ draw, follow: () => {
      follow();
      draw();
      const row = chosen ? map.servers.indexOf(chosen.servers[0]) : -1;
      if (row >= 0) frame.scrollTop = Math.max(0, plot.top + row * plot.cell - frame.clientHeight / 2);
    } });
  }

  // ---- the timeline around a finding ---------------------------------------------------------
  const COLOURS = { compute: "work", wait: "wait", pp: "pp", dp: "dp" };
  const WORDS = { compute: "computation", wait: "waiting", pp: "pipeline (PP)", dp: "data-parallel (DP)",
    ep: "expert-parallel (EP)", cp: "context-parallel (CP)", tp: "tensor-parallel (TP)" };

  function timeline() {
    const canvas = section("close-up").querySelector("canvas");
    const ROW = 30, MARK = 18;
    /** What each kind of telemetry shows of the finding, if there are several: kind, start and end in ms. */
    const marks = () => (findings.find(one => one.number === part.finding) || { marks: [] }).marks;
    let part = data.close_ups[0], view = [0, part.length_ms], left = 0, width = 0;

    const bounded = (from, to) => {
      const length = Math.min(Math.max(to - from, part.length_ms / 5000), part.length_ms);
      const begin = Math.min(Math.max(from, 0), part.length_ms - length);
      return [begin, begin + length];
    };
    function zoom(by, at = 0.5) {
      const length = view[1] - view[0], middle = view[0] + at * length;
      view = bounded(middle - at * length * by, middle + (1 - at) * length * by);
      draw();
    }
    function shift(by) {
      view = bounded(view[0] + by * (view[1] - view[0]), view[1] + by * (view[1] - view[0]));
      draw();
    }
    const toX = ms => left + ((ms - view[0]) / (view[1] - view[0])) * (width - left);
    const toMs = x => view[0] + ((x - left) / (width - left)) * (view[1] - view[0]);

    function draw() {
      const own = marks();
      const end = part.rows.length * ROW + own.length * MARK, height = end + AXIS;
      const [context, whole] = sized(canvas, height);
      width = whole;
      const names = part.rows.map(row => (row.server === row.address ? row.address : `${row.server} ${row.address}`));
      left = labelWidth(context, [...names, ...own.map(one => one[0])], width);
      canvas.dataset.from = view[0].toFixed(6);
      canvas.dataset.to = view[1].toFixed(6);
      shade(context, part.start_ms + view[0], part.start_ms + view[1], left, width, 0, height - AXIS);
      bars(context);
      part.rows.forEach((row, at) => {
        context.font = font(12, row.culprit);
        context.fillStyle = theme(row.culprit ? "finding" : "ink");
        context.fillText(fitted(context, names[at], left - 6), 0, (at + 0.5) * ROW);
        context.fillStyle = theme("grid");
        if (at) context.fillRect(0, at * ROW, width, 1);
      });
      own.forEach(([kind, from, to], at) => {
        const top = part.rows.length * ROW + at * MARK;
        const [x, until] = [from, to].map(ms => Math.min(Math.max(toX(ms - part.start_ms), left), width));
        context.font = font(12);
        context.fillStyle = theme("ink");
        context.fillText(kind, 0, top + MARK / 2);
        context.fillStyle = theme("finding");
        context.fillRect(x, top + 5, Math.max(until - x, 2), MARK - 10);
      });
      timeAxis(context, part.start_ms + view[0], part.start_ms + view[1], left, width, end + 2);
      axisTitle(context, timeTitle(), left, width, end + 2);
      const other = part.omitted ? ` ${part.omitted} other NICs of the job are not shown.` : "";
      const about = part.finding === null ? "the middle of the records" : "the finding";
      note("close-up", `${part.job} around ${about}: ${utc(part.start_ms + view[0])} to ${utc(part.start_ms + view[1])}.${other}`);
    }
    function bars(context) {
      const { row, kind, start, length } = part.spans;
      const colours = part.kinds.map(name => theme(COLOURS[name] || "other"));
      context.save();
      context.beginPath();
      context.rect(left, 0, width - left, part.rows.length * ROW);
      context.clip();
      for (let i = 0; i < row.length; i++) {
        const x = toX(start[i] / 1000), end = toX((start[i] + length[i]) / 1000);
        if (end < left || x > width) continue;
        const traffic = kind[i] > 1;
        context.fillStyle = colours[kind[i]];
        context.fillRect(x, row[i] * ROW + (traffic ? 8 : 4), Math.max(end - x, traffic ? 1 : 0.6), traffic ? ROW - 16 : ROW - 8);
      }
      context.fillStyle = theme("ink");
      part.ends.time.forEach((time, i) => context.fillRect(toX(time / 1000) - 1, part.ends.row[i] * ROW + 2, 2, ROW - 4));
      context.restore();
    }
    hover(canvas, (x, y) => {
      const at = Math.floor(y / ROW), ms = toMs(x);
      const mark = marks()[Math.floor((y - part.rows.length * ROW) / MARK)];
      if (mark) return `${mark[0]}: ${utc(mark[1])} to ${utc(mark[2])}`;
      if (x < left || at < 0 || at >= part.rows.length) return "";
      const { row, kind, start, length, step } = part.spans;
      const slack = ((view[1] - view[0]) / (width - left)) * 1500;
      const lines = [];
      for (let i = 0; i < row.length; i++)
        if (row[i] === at && start[i] - slack <= ms * 1000 && ms * 1000 <= start[i] + length[i] + slack)
          lines.push([length[i], `${WORDS[part.kinds[kind[i]]] || "other traffic"}: ${lasting(length[i] / 1000)} from ` +
            `${utc(part.start_ms + start[i] / 1000)} (step ${step[i]})`]);
      const name = `${part.rows[at].server}, ${part.rows[at].address}`;
      return [name, ...lines.sort((a, b) => a[0] - b[0]).slice(0, 4).map(line => line[1])].join("\n");
    });

    const held = new Map();
    canvas.addEventListener("pointerdown", event => { held.set(event.pointerId, event.clientX); canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", event => {
      if (!held.has(event.pointerId)) return;
      const before = [...held.values()], was = held.get(event.pointerId);
      held.set(event.pointerId, event.clientX);
      const after = [...held.values()];
      if (held.size === 1 && event.clientX !== was) {
        showTip(null, "");
        shift((was - event.clientX) / (width - left));
      } else if (held.size === 2) {
        const box = canvas.getBoundingClientRect(), spread = Math.abs(after[0] - after[1]);
        if (spread > 4) zoom(Math.abs(before[0] - before[1]) / spread, ((after[0] + after[1]) / 2 - box.left - left) / (width - left));
      }
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, event => held.delete(event.pointerId));
    const place = event => (event.clientX - canvas.getBoundingClientRect().left - left) / (width - left);
    canvas.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, place(event));
    }, { passive: false });
    canvas.addEventListener("dblclick", event => zoom(0.4, place(event)));
    const actions = { in: () => zoom(0.5), out: () => zoom(2), left: () => shift(-0.4), right: () => shift(0.4),
      all: () => { view = [0, part.length_ms]; draw(); } };
    const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all" };
    section("close-up").querySelectorAll("[data-zoom]").forEach(button => button.addEventListener("click", actions[button.dataset.zoom]));
    canvas.addEventListener("keydown", event => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      actions[keys[event.key]]();
    });
    charts.push({ draw, follow: () => {
      const own = data.close_ups.find(one => chosen && one.finding === chosen.number);
      section("close-up").hidden = !own && chosen !== null && data.close_ups[0].finding !== null;
      part = own || data.close_ups[0];
      view = [0, part.length_ms];
      draw();
    } });
  }

  // ---- rates by leaf -------------------------------------------------------------------------
  function leaves() {
    const rates = data.leaves, count = rates.names.length;
    const ROW = count <= 12 ? 64 : count <= 24 ? 44 : 26, AIR = ROW < 40 ? 6 : 12;
    const canvas = section("leaves").querySelector("canvas");
    const bins = rates.sent[0].length, cut = rates.cut, border = cut ? Math.round(cut.bin) : bins;
    const most = Math.max(...rates.sent.flat(), ...rates.received.flat(), 1e-12);
    const largest = Math.max(...rates.capacity.map(value => value || 0));
    const isFull = most > largest / 20;  // a line far above the rates would flatten them
    const top = isFull && largest >= most ? largest : nice(most * 1.001, 1), unit = rate(top);
    const begin_ms = bin => rates.start_ms + bin * rates.bin_ms + (cut && bin >= border ? cut.length_ms : 0);
    let left = 0, width = 0, silent = 0, across = 1;
    const toX = bin => left + bin * across + (bin >= border ? silent : 0);
    /** Stretches of bins without the silence in between. */
    const stretches = cut ? [[0, border], [border, bins]].filter(([from, to]) => to > from) : [[0, bins]];

    function draw() {
      const height = count * ROW + AXIS;
      const [context, whole] = sized(canvas, height);
      width = whole;
      const names = labelWidth(context, rates.names, width);
      const silence = cut ? [lasting(cut.length_ms), "no traffic"] : [];
      context.font = font(11);
      silent = Math.max(0, ...silence.map(text => context.measureText(text).width + 14));
      context.font = font(10);
      left = names + Math.ceil(context.measureText(unit).width) + 10;
      across = (width - left - silent) / bins;
      for (const [from, to] of stretches) {
        const ends = [begin_ms(from), rates.start_ms + to * rates.bin_ms + (cut && to > border ? cut.length_ms : 0)];
        const sides = [toX(from), toX(to - 1) + across];
        shade(context, ...ends, ...sides, 0, count * ROW);
        timeAxis(context, ...ends, ...sides, count * ROW + 2);
      }
      rates.names.forEach((_, row) => drawRow(context, row, names));
      drawSilence(context, silence);
      axisTitle(context, timeTitle(), left, width, count * ROW + 2);
    }
    function drawRow(context, row, names) {
      const middle = (row + 0.5) * ROW, half = (ROW - AIR) / 2, scale = half / top;
      context.fillStyle = theme("rate");
      rates.sent[row].forEach((value, bin) => context.fillRect(toX(bin), middle - value * scale, across + 0.3, value * scale));
      context.fillStyle = theme("back");
      rates.received[row].forEach((value, bin) => context.fillRect(toX(bin), middle, across + 0.3, value * scale));
      context.fillStyle = theme("grid");
      for (const at of isFull ? [middle] : [middle - half, middle, middle + half]) context.fillRect(left, at, width - left, 1);
      drawCapacity(context, rates.capacity[row], middle, scale);
      context.font = font(10);
      context.fillStyle = theme("muted");
      context.textAlign = "right";
      if (ROW > 40 || row === 0) {
        context.fillText(unit, left - 4, middle - half + 4);
        context.fillText("0", left - 4, middle + (ROW > 40 ? 0 : 3));
      }
      if (ROW > 50) context.fillText(unit, left - 4, middle + half - 4);
      context.textAlign = "left";
      context.font = font(12);
      context.fillStyle = theme("ink");
      context.fillText(fitted(context, rates.names[row], names - 6), 0, middle);
    }
    function drawCapacity(context, capacity, middle, scale) {
      if (!isFull || !capacity) return;
      context.strokeStyle = theme(ROW > 40 ? "muted" : "grid");
      context.lineWidth = 1;
      context.setLineDash([4, 3]);
      for (const side of [-1, 1]) {
        context.beginPath();
        context.moveTo(left, middle + side * capacity * scale);
        context.lineTo(width, middle + side * capacity * scale);
        context.stroke();
      }
      context.setLineDash([]);
    }
    function drawSilence(context, lines) {
      if (!cut) return;
      const from = toX(border) - silent;
      context.fillStyle = theme("paper");
      context.fillRect(from, 0, silent, count * ROW);
      context.fillStyle = theme("muted");
      context.font = font(11);
      context.textAlign = "center";
      lines.forEach((text, at) => context.fillText(text, from + silent / 2, (count * ROW) / 2 + (at - 0.5) * 14));
      context.textAlign = "left";
    }
    hover(canvas, (x, y) => {
      const after = x >= toX(border), row = Math.floor(y / ROW);
      const bin = Math.floor((x - left - (after ? silent : 0)) / across);
      if (bin < 0 || bin >= bins || row >= count || (!after && bin >= border)) return "";
      const full = rates.capacity[row] ? `; capacity ${rate(rates.capacity[row])} each way` : "";
      return `${rates.names[row]}, ${utc(begin_ms(bin))}\n` +
        `sent ${rate(rates.sent[row][bin])}, received ${rate(rates.received[row][bin])}${full}`;
    });
    section("leaves").querySelector("[data-capacity]").hidden = !isFull || !largest;
    note("leaves", `All rows have the same scale, up to ${unit}; the highest rate is ${rate(most)}. Each value is a mean over ${lasting(rates.bin_ms)}.` +
      (largest && !isFull ? ` The NICs of a leaf carry up to ${rate(largest)}.` : "") +
      (rates.omitted ? ` ${rates.omitted} leaves with less traffic are not shown.` : ""));
    charts.push({ draw, follow: draw });
  }

  // ---- computation, communication and waiting ------------------------------------------------
  function shares() {
    const canvas = section("shares").querySelector("canvas");
    const colours = ["work", "pp", "wait"], words = ["computation", "communication", "waiting"];
    let part = data.shares[0], left = 0, width = 0, most = 1, ROW = 30;
    const rows = () => {
      const inside = chosen && part.windows[chosen.number];
      return inside ? [["usually", part.windows.usual], ["in the finding", inside]] : [["usually", part.windows.usual]];
    };
    const sum = times => times.reduce((a, b) => a + b, 0);
    function draw() {
      const shown = rows();
      const few = part.servers.length <= 24;
      ROW = shown.length > 1 ? (few ? 34 : 22) : (few ? 24 : 14);
      const air = few ? 8 : 4;
      const [context, whole] = sized(canvas, part.servers.length * ROW + AXIS);
      width = whole;
      left = labelWidth(context, part.servers, width);
      most = Math.max(...shown.flatMap(([, times]) => times.map(sum)), 1e-9);
      const culprits = new Set(chosen && chosen.job === part.job ? chosen.servers : []);
      part.servers.forEach((name, row) => {
        context.font = font(12, culprits.has(name));
        context.fillStyle = theme(culprits.has(name) ? "finding" : "ink");
        context.fillText(fitted(context, name, left - 6), 0, (row + 0.5) * ROW);
        const thick = (ROW - air) / shown.length;
        shown.forEach(([, times], at) => {
          let x = left;
          times[row].forEach((time, kind) => {
            const length = (time / most) * (width - left);
            context.globalAlpha = at === 0 && shown.length > 1 ? 0.55 : 1;
            context.fillStyle = theme(colours[kind]);
            context.fillRect(x, row * ROW + air / 2 + at * thick, length, thick - 1);
            x += length;
          });
          context.globalAlpha = 1;
        });
      });
      context.fillStyle = theme("muted");
      context.font = font(11);
      context.fillText("0", left, part.servers.length * ROW + 10);
      context.textAlign = "right";
      context.fillText(lasting(most), width, part.servers.length * ROW + 10);
      axisTitle(context, "mean time in a step", left, width, part.servers.length * ROW);
      note("shares", ` Shown: ${part.job}.` + (shown.length > 1 ? " Upper bar: outside of findings; lower bar: in the finding." : "") +
        (part.omitted ? ` ${part.omitted} servers are not shown.` : ""));
    }
    hover(canvas, (x, y) => {
      const row = Math.floor(y / ROW);
      if (row < 0 || row >= part.servers.length) return "";
      const lines = rows().map(([name, times]) => `${name}: ` + times[row].map((time, kind) => `${words[kind]} ${lasting(time)}`).join(", "));
      return [part.servers[row], ...lines].join("\n");
    });
    charts.push({ draw, follow: () => {
      part = data.shares.find(one => chosen && one.job === chosen.job) || data.shares[0];
      draw();
    } });
  }

  // ---- the trace -----------------------------------------------------------------------------
  const VIEWER = "https://ui.perfetto.dev";
  const dialog = document.getElementById("trace"), file = dialog.querySelector("input");
  let wanted = null;
  /** Hand the trace to Perfetto, then scroll to the finding. The trace stays on this machine. */
  function show(viewer, buffer, finding) {
    const head = new TextDecoder().decode(buffer.slice(0, 4000)).match(/"origin_ns": "?(\d+)/);
    const origin_ms = head ? Number(head[1]) / 1e6 : data.origin_ms;
    const at = ms => (data.origin_ms + ms - origin_ms) / 1000;
    const ping = setInterval(() => viewer.postMessage("PING", VIEWER), 100);
    window.addEventListener("message", function answer(event) {
      if (event.source !== viewer || event.data !== "PONG") return;
      clearInterval(ping);
      window.removeEventListener("message", answer);
      viewer.postMessage({ perfetto: { buffer, title: document.title, fileName: "trace.json", localOnly: true, keepApiOpen: true } }, VIEWER);
      viewer.postMessage({ perfetto: { timeStart: at(finding.start_ms), timeEnd: at(finding.end_ms), viewPercentage: 0.5 } }, VIEWER);
    });
  }
  async function openTrace(finding) {
    if (location.protocol === "file:") { wanted = finding; dialog.showModal(); return; }
    const viewer = window.open(VIEWER);
    const answer = await fetch("trace.json");
    if (viewer && answer.ok) show(viewer, await answer.arrayBuffer(), finding);
  }
  file.addEventListener("change", async () => {
    if (!file.files.length) return;
    const viewer = window.open(VIEWER);
    dialog.close();
    if (viewer) show(viewer, await file.files[0].arrayBuffer(), wanted);
    file.value = "";
  });

  // ---- start ---------------------------------------------------------------------------------
  function choose(finding) {
    chosen = finding;
    document.querySelectorAll("[data-card]").forEach(card =>
      card.setAttribute("aria-current", String(finding !== null && Number(card.dataset.card) === finding.number)));
    charts.forEach(chart => chart.follow());
  }
  const numbered = number => findings.find(one => one.number === Number(number));
  document.querySelectorAll("[data-show]").forEach(button => button.addEventListener("click", () => {
    choose(numbered(button.dataset.show));
    const first = section("heat") || section("close-up");
    if (first) first.scrollIntoView({ behavior: "smooth", block: "start" });
  }));
  document.querySelectorAll("[data-trace]").forEach(link => link.addEventListener("click", event => {
    event.preventDefault();
    openTrace(numbered(link.dataset.trace));
  }));
  if (section("heat")) heatMap();
  if (section("close-up")) timeline();
  if (section("leaves")) leaves();
  if (section("shares")) shares();
  choose(chosen);
  const again = () => charts.forEach(chart => chart.draw());
  let resizing = 0;
  window.addEventListener("resize", () => { cancelAnimationFrame(resizing); resizing = requestAnimationFrame(again); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
})();
