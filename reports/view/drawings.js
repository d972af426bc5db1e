/* Drawings of one example as inline SVG: time axis, sequence, curves, gauges. Every text in them is escaped. */
(function () {
  "use strict";
  var bp = window.brokerproof, html = bp.html, MAX_LANES = 8, MAX_BANDS = 12, MS = 1e6;
  var SENT = { FrameSent: "frame", HeartBeatSent: "beat", OctetsSent: "octets" };
  var RECEIVED = { FrameReceived: "frame", HeartBeatReceived: "beat", OctetsRefused: "octets" };
  function fixed(value) { return +value.toFixed(1); }

  /* The last frame either way before a violation: what the broker had been asked, and the last that it sent. */
  function last_frames(rows, violation) {
    var before = violation ? rows.slice(0, violation.place).reverse() : [];
    return new Set(["FrameSent", "FrameReceived"].map(function (kind) { return before.find(function (row) { return row.kind === kind && !row.broker; }); }).filter(Boolean));
  }
  /* Frames that a drawing names first: those, and what settles, grants or refuses. */
  bp.notes = function (rows) {
    var matter = last_frames(rows, bp.violations(rows)[0]);
    return rows.filter(function (row) { return matter.has(row) || bp.is_decisive(row); }).map(function (row) { return { at: row.at, label: row.command || "?", weight: matter.has(row) ? 2 : 1 }; });
  };

  /* What stands on the axis: lanes with ticks, expected intervals, the canary, gaps; instants in nanoseconds since the first event. */
  bp.marks = function (rows) {
    var lanes = {}, jitter = [], merged = {}, gaps = [], before = null, violations = bp.violations(rows), matter = last_frames(rows, violations[0]);
    rows.forEach(function (row) {
      var conn = row.conn;
      if (row.kind === "JitterMeasured") jitter.push([row.at, row.late_ns]);
      if (row.kind === "IntervalExpected") {
        var key = [row.label, row.lo_ns, row.hi_ns].join("\u0000"), band = merged[key] = merged[key] || { label: row.label, requirements: [], lo: row.lo_ns, hi: row.hi_ns === undefined ? null : row.hi_ns };
        if (row.requirement && band.requirements.indexOf(row.requirement) < 0) band.requirements.push(row.requirement);
      }
      if (before && row.number > before.number + 1) gaps.push([before.at, row.at, row.number - before.number - 1]);
      before = row;
      if (conn === undefined || row.broker) return;
      var lane = lanes[conn] = lanes[conn] || { conn: conn, acceptor: "", opened: null, end: null, ticks: [] };
      if (row.kind === "ConnectionOpened") { lane.opened = row.at; lane.acceptor = row.acceptor || ""; }
      else if (row.kind === "ConnectionClosed" || row.kind === "ConnectionAbandoned") lane.end = lane.end || { at: row.at, label: bp.ending(row), by_broker: row.kind === "ConnectionClosed" };
      else if (SENT[row.kind] || RECEIVED[row.kind]) {
        var what = SENT[row.kind] || RECEIVED[row.kind];
        lane.ticks.push({ at: row.at, sent: !!SENT[row.kind], kind: what, label: what === "frame" ? row.command || "?" : what === "beat" ? "heartbeat" : "bytes", weight: matter.has(row) ? 2 : bp.is_decisive(row) ? 1 : 0 });
      }
    });
    var every = Object.keys(merged).map(function (key) { return merged[key]; }), bands = every.slice(0, MAX_BANDS), edges = [0];
    bands.forEach(function (band) { edges.push(band.lo); if (band.hi !== null) edges.push(band.hi); });
    var conns = Object.keys(lanes).map(Number).sort(function (a, b) { return a - b; });
    return { first: Math.min.apply(null, edges), last: Math.max.apply(null, edges.concat(rows.map(function (row) { return row.at; }))),
      lanes: conns.slice(0, MAX_LANES).map(function (conn) { return lanes[conn]; }), bands: bands, jitter: jitter, gaps: gaps, violations: violations,
      lanes_left_out: Math.max(0, conns.length - MAX_LANES), bands_left_out: Math.max(0, every.length - MAX_BANDS) };
  };
  function band_text(band) { return band.label + ": " + bp.duration(band.lo) + " … " + (band.hi === null ? "any time later" : bp.duration(band.hi)); }

  /* Roughly how wide a small and a capital letter of the 11 px labels are. */
  function room(text) { var capitals = (text.match(/\p{Lu}/gu) || []).length; return capitals * 8 + (text.length - capitals) * 6; }
  /* Instants as places from left over a width. Stretches without anything that would be most of the drawing take the width of a break; whole are
     intervals that are never broken. */
  var MOST_BREAKS = 4;
  bp.scale = function (instants, whole, left, width) {
    var edges = Array.from(new Set(instants)).sort(function (a, b) { return a - b; }), lo = edges[0], hi = edges[edges.length - 1], rest = hi - lo;
    var gaps = edges.slice(1).map(function (edge, at) { return [edges[at], edge]; }).filter(function (gap) { return !whole.some(function (band) { return band[0] < gap[1] && gap[0] < band[1]; }); });
    var breaks = [], least = rest / 100;
    gaps = gaps.filter(function (gap) { return gap[1] - gap[0] >= least; }).sort(function (a, b) { return b[1] - b[0] - (a[1] - a[0]); });
    /* The fewest that leave a tenth, or one that is more than half of it. */
    while (breaks.length < MOST_BREAKS && gaps.length) {
      var sum = 0, few = gaps.slice(0, MOST_BREAKS - breaks.length).findIndex(function (gap) { sum += gap[1] - gap[0]; return sum >= 0.9 * rest; }) + 1;
      if (!few && gaps[0][1] - gaps[0][0] > 0.6 * rest) { few = 1; sum = gaps[0][1] - gaps[0][0]; }
      if (!few || sum === rest) break;
      breaks = breaks.concat(gaps.splice(0, few));
      rest -= sum;
    }
    breaks.sort(function (a, b) { return a[0] - b[0]; });
    var cut = Math.min(90, 0.45 * width / Math.max(breaks.length, 1));
    var unit = (width - cut * breaks.length) / Math.max(rest, 1);
    function x(at) {
      var place = left, from = lo;
      breaks.forEach(function (gap) {
        place += Math.max(0, Math.min(at, gap[0]) - from) * unit + cut * Math.min(1, Math.max(0, at - gap[0]) / (gap[1] - gap[0]));
        from = Math.max(from, Math.min(at, gap[1]));
      });
      return fixed(place + (at - from) * unit);
    }
    /* Round instants of every unbroken stretch, and its first where there is no room for more. */
    function ticks(apart) {
      var starts = [lo].concat(breaks.map(function (gap) { return gap[1]; })), ends = breaks.map(function (gap) { return gap[0]; }).concat(hi), found = [], free = -Infinity;
      function add(at) { if (x(at) >= free) { found.push(at); free = x(at) + apart; } }
      starts.forEach(function (start, piece) {
        var end = ends[piece], room = x(end) - x(start);
        if (room < apart) { add(start); return; }
        for (var stride = bp.step(end - start, Math.max(1, Math.floor(room / apart))), at = Math.ceil(start / stride) * stride; at <= end; at += stride) add(at);
      });
      return found;
    }
    return { x: x, ticks: ticks, breaks: breaks };
  };
  /* A break on a line: two strokes, and how long it is. */
  function break_mark(scale, gap, y, words) {
    var middle = fixed((scale.x(gap[0]) + scale.x(gap[1])) / 2);
    return html`<path class="cut" d="M${fixed(middle - 7)} ${y + 5}l5 -10m4 10l5 -10"/>${words && html`<text class="note mid" x="${middle}" y="${y - 8}">${bp.duration(Number((gap[1] - gap[0]).toPrecision(3)))}</text>`}`;
  }
  var WIDTH = 1000, RIGHT = 24, BAND = 26, LANE = 84, FOOT = 40;
  bp.axis = function (marks, space) {
    var width = Math.max(Math.min(space || WIDTH, WIDTH), 300), left = width < 600 ? 76 : 92, whole = width - left - RIGHT, head = marks.violations.length ? 18 : 0, reserved = 0, scale;
    function ending_room(end) { return 14 + 1.12 * room(end.label + ", " + bp.duration(end.at)); }
    var instants = [marks.first, marks.last], closed = [];
    marks.bands.forEach(function (band) { instants.push(band.lo); if (band.hi !== null) { instants.push(band.hi); closed.push([band.lo, band.hi]); } });
    marks.lanes.forEach(function (lane) { [lane.opened, lane.end && lane.end.at].concat(lane.ticks.map(function (tick) { return tick.at; })).forEach(function (at) { if (at !== null) instants.push(at); }); });
    marks.gaps.forEach(function (gap) { instants.push(gap[0], gap[1]); });
    marks.violations.forEach(function (violation) { instants.push(violation.at); });
    /* The words at the end of a lane have room behind it. */
    for (var round = 0; round < 2; round++) {
      scale = bp.scale(instants, closed, left + 8, whole - 8 - reserved);
      reserved = Math.min(0.4 * whole, Math.max.apply(null, [0].concat(marks.lanes.map(function (lane) { return lane.end ? scale.x(lane.end.at) + ending_room(lane.end) - width : 0; }))) + reserved);
    }
    var top = 14 + head + BAND * marks.bands.length, bottom = top + LANE * Math.max(marks.lanes.length, 1), parts = [], x = scale.x, end_of_axis = width - RIGHT;
    function put(part) { parts.push(part); }
    scale.ticks(70).forEach(function (at) {
      put(html`<line class="grid" x1="${x(at)}" y1="${head + 8}" x2="${x(at)}" y2="${bottom}"/><text class="tick" x="${fixed(Math.min(x(at), width - room(bp.duration(at)) / 2 - 4))}" y="${bottom + 15}">${bp.duration(at)}</text>`);
    });
    put(html`<line class="base" x1="${left}" y1="${bottom}" x2="${end_of_axis}" y2="${bottom}"/>`);
    marks.gaps.forEach(function (gap) {
      var start = x(gap[0]), wide = Math.max(x(gap[1]) - start, 3);
      put(html`<rect class="gap" x="${start}" y="${top}" width="${fixed(wide)}" height="${bottom - top}" fill="url(#gap)"><title>${bp.quantity(gap[2], "events")} not shown</title></rect>`);
      if (wide > 130) put(html`<text class="note mid" x="${fixed(start + wide / 2)}" y="${bottom - 6}">${bp.quantity(gap[2], "events")} not shown</text>`);
    });
    marks.bands.forEach(function (band, row) {
      var y = 14 + head + BAND * row, start = x(band.lo), open = band.hi === null, wide = fixed(Math.max((open ? end_of_axis : x(band.hi)) - start, 2.5)), text = band_text(band);
      put(html`<rect class="reach ${open && "open"}" x="${start}" y="${y + 16}" width="${wide}" height="${bottom - y - 16}"/>`);
      put(html`<rect class="band ${open && "open"}" x="${start}" y="${y + 14}" width="${wide}" height="7" rx="2"><title>${text} ${band.requirements.join(", ")}</title></rect>`);
      put(html`<text class="label" x="${fixed(Math.max(8, Math.min(start, end_of_axis - room(text))))}" y="${y + 10}">${text}</text>`);
    });
    marks.violations.slice(0, 1).forEach(function (violation) {
      if (violation.waited) put(html`<rect class="waited" x="${x(violation.last.at)}" y="${top}" width="${fixed(x(violation.at) - x(violation.last.at))}" height="${bottom - top}"/>`);
    });
    var told = new Set();
    function ticks(of, middle, side) {
      var direction = side < 0 ? "sent" : "received", drawn = {}, clusters = [], taken = [[], []];
      of.forEach(function (tick) {
        var at = x(tick.at), key = at + tick.kind, cluster = clusters[clusters.length - 1];
        if (!drawn[key]) {
          drawn[key] = true;
          put(html`<line class="${direction} ${tick.kind}" x1="${at}" y1="${middle}" x2="${at}" y2="${middle + side * (tick.kind === "beat" ? 10 : 18)}"><title>${tick.label} ${direction} at ${bp.duration(tick.at)}</title></line>`);
        }
        if (tick.kind === "beat") return;
        /* Labels that would fall on one another, together, named after the most frequent of those that matter most. */
        if (!cluster || at - cluster.x > 5) clusters.push(cluster = { x: at, labels: [], weight: 0, of: {} });
        cluster.labels.push(tick.label);
        if (tick.weight > cluster.weight) { cluster.weight = tick.weight; cluster.of = {}; }
        if (tick.weight === cluster.weight) cluster.of[tick.label] = (cluster.of[tick.label] || 0) + 1;
      });
      clusters.map(function (cluster, at) { return [cluster, at]; }).sort(function (a, b) { var weight = a[0].weight; return b[0].weight - weight || (weight ? b[1] - a[1] : a[1] - b[1]); }).forEach(function (pair) {
        var cluster = pair[0], others = cluster.labels.length - 1, named = Object.keys(cluster.of).reduce(function (best, label) { return cluster.of[label] > cluster.of[best] ? label : best; }), text = named + (others ? " +" + others : ""), start = fixed(Math.min(cluster.x - 2, end_of_axis - room(text))), end = start + room(text) + 6;
        var row = taken.findIndex(function (boxes, row) { return (row === 0 || cluster.weight > 0) && boxes.every(function (box) { return end <= box[0] || box[1] <= start; }); });
        if (row < 0) return;
        taken[row].push([start, end]);
        put(html`<text class="label ${direction}" x="${start}" y="${middle + (side < 0 ? -22 - 12 * row : 30 + 11 * row)}">${text}<title>${cluster.labels.slice(0, 20).join(", ")}</title></text>`);
      });
    }
    marks.lanes.forEach(function (lane, row) {
      var middle = top + LANE * row + LANE / 2, start = lane.opened === null ? left : x(lane.opened), end = lane.end ? x(lane.end.at) : end_of_axis;
      put(html`<text class="lane" x="6" y="${middle - 2}">connection ${lane.conn}</text><text class="note" x="6" y="${middle + 11}">${lane.acceptor.slice(0, 12)}</text>`);
      put(html`<line class="life" x1="${start}" y1="${middle}" x2="${end}" y2="${middle}"/>`);
      scale.breaks.forEach(function (gap) {
        if (x(gap[0]) < start || x(gap[1]) > end) return;
        put(break_mark(scale, gap, middle, !told.has(gap)));
        told.add(gap);
      });
      ticks(lane.ticks.filter(function (tick) { return tick.sent; }), middle, -1);
      ticks(lane.ticks.filter(function (tick) { return !tick.sent; }), middle, 1);
      if (!lane.end) return;
      var by = lane.end.by_broker ? "broker" : "harness", words = lane.end.label + ", " + bp.duration(lane.end.at), behind = end + ending_room(lane.end) <= width + 1;
      put(html`<path class="end ${by}" d="M${fixed(end - 5)} ${middle - 5}l10 10m0 -10l-10 10"><title>${lane.end.label} at ${bp.duration(lane.end.at)}</title></path>`);
      put(html`<text class="label end ${by} ${!behind && "before"}" x="${fixed(behind ? end + 10 : end - 10)}" y="${behind ? middle + 4 : middle - 7}">${words}</text>`);
    });
    marks.violations.slice(0, 1).forEach(function (violation) {
      var at = x(violation.at), words = violated_here(violation), aside = at + room(words) > width;
      put(html`<line class="violated" x1="${at}" y1="16" x2="${at}" y2="${bottom}"/><text class="violated ${aside && "before"}" x="${fixed(aside ? Math.min(at + 4, width - 4) : at - 4)}" y="12">${words}<title>${violation.requirement}: ${violation.detail}</title></text>`);
    });
    marks.jitter.forEach(function (mark) { put(html`<path class="jitter" d="M${x(mark[0])} ${bottom + 20}l4 7h-8z"><title>this host's timer was ${bp.duration(mark[1])} late</title></path>`); });
    if (marks.jitter.length) put(html`<text class="note" x="${left}" y="${bottom + 36}">this host's own timer: at most ${bp.duration(Math.max.apply(null, marks.jitter.map(function (mark) { return mark[1]; })))} late</text>`);
    var violated = marks.violations.length ? "; " + violated_here(marks.violations[0]) : "";
    return html`<svg class="axis" viewBox="0 0 ${width} ${bottom + FOOT}" role="img" aria-label="Time axis: ${bp.quantity(marks.lanes.length, "connections")}, ${bp.quantity(marks.bands.length, "expected intervals")}${violated}"><defs><pattern id="gap" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="7"/></pattern></defs>${parts}</svg>`;
  };
  function violated_here(violation) { return "violated here" + (violation.wait && ": " + violation.wait); }

  /* A measured value against its interval and margin. */
  bp.gauge = function (value, low, high, margin) {
    var bounds = [low, high].filter(function (bound) { return bound !== null; });
    if (!bounds.length) return "";
    var edges = [value, Math.min.apply(null, bounds) - margin, Math.max.apply(null, bounds) + margin], least = Math.min.apply(null, edges);
    var span = Math.max(Math.max.apply(null, edges) - least, 1), start = least - span * 0.08, width = span * 1.16;
    function x(at, otherwise) { return at === null ? otherwise : fixed((at - start) / width * 160); }
    var left = x(low, 0), right = x(high, 160), outer = low === null ? 0 : x(low - margin), beyond = high === null ? 160 : x(high + margin);
    var inside = (low === null || value >= low) && (high === null || value <= high);
    return html`<svg class="gauge" viewBox="0 0 160 18" aria-hidden="true"><line class="base" x1="0" y1="9" x2="160" y2="9"/><rect class="margin" x="${outer}" y="4" width="${fixed(Math.max(beyond - outer, 2))}" height="10"/><rect class="band" x="${left}" y="4" width="${fixed(Math.max(right - left, 2))}" height="10"/><line class="value ${inside ? "in" : "out"}" x1="${x(value)}" y1="1" x2="${x(value)}" y2="17"/></svg>`;
  };

  /* The conversation: time runs down, every connection is a line to the broker, deadlines are drawn across where they fall.
     Events keep their order and each gets room for its words, so the scale is not even: the room between two grows with the logarithm of the time between them. */
  var MOST_STEPS = 90, MAX_CONNECTIONS = 5, TIME = 74, LAST = 24, SLOT = 18, HEAD = 34, STEP = 23, LETTER = 6.1;
  var FIELDS = { flow: ["link-credit", "drain", "incoming-window"], transfer: ["delivery-id"], disposition: ["first", "last", "state"], attach: ["role"], open: ["idle-time-out"],
    SUBSCRIBE: ["ack", "consumer-window-size"], CONNECT: ["heart-beat"], CONNECTED: ["heart-beat"], ERROR: ["message"], "basic.qos": ["prefetch-count"], "channel.flow": ["active"] };
  function name(row) { return /^HeartBeat/.test(row.kind) ? "heartbeat" : row.command || "bytes"; }
  /* A command with what matters most about flow and liveness. */
  function words(row) {
    var fields = {};
    (row.headers || []).forEach(function (header) { fields[header[0]] = header[1]; });
    var details = (FIELDS[row.command] || []).filter(function (field) { return fields[field] && fields[field] !== "false"; }).map(function (field) { return field.replace(/^link-/, "") + " " + fields[field]; });
    if (details.length) return name(row) + "  " + details.join(", ");
    var size = row.size || row.data_size;
    return size && !/^HeartBeat/.test(row.kind) ? name(row) + "  " + size + " bytes" : name(row);
  }
  function step_of(group) {
    var row = group[0], kind = row.kind, until = group[group.length - 1].at;
    if (row.conn !== undefined && !row.broker) {
      if (SENT[kind] || RECEIVED[kind]) {
        var text = group.length > 1 ? group.length + " × " + name(row) + (until > row.at ? " until " + bp.duration(until) : "") : words(row);
        return { look: SENT[kind] ? "sent" : "received", words: text, conn: row.conn, style: /^Heart/.test(kind) ? "beat" : "frame" };
      }
      if (kind === "ConnectionOpened") return { look: "opened", words: "opens", conn: row.conn };
      if (kind === "ConnectionClosed" || kind === "ConnectionAbandoned") return { look: "ended", words: bp.ending(row), conn: row.conn, style: kind === "ConnectionClosed" ? "broker" : "harness" };
    }
    if (kind === "LinkFaulted") return { look: "note", words: "link disturbed: " + (row.detail || ""), conn: row.conn };
    if (kind === "Noted") return { look: "note", words: row.detail || "", conn: row.conn };
    return kind === "Judged" && row.seen === "VIOLATED" ? { look: "violated", words: "✗ " + row.requirement + " violated", place: row.place } : null;
  }
  function shown_steps(rows) {
    var shown = [], waits = {};
    bp.violations(rows).forEach(function (violation) { waits[violation.place] = violation.wait; });
    bp.steps_and_gaps(rows, function (group, missing) {
      if (missing) shown.push({ at: group[0].at, look: "note", words: bp.quantity(missing, "events") + " not shown", gap: true });
      var step = step_of(group);
      if (step) { step.at = group[0].at; step.wait = waits[step.place] || ""; shown.push(step); }
    });
    if (shown.length <= MOST_STEPS) return shown;
    var head = MOST_STEPS * 2 / 3, tail = MOST_STEPS / 3, end = shown.slice(-tail);
    return shown.slice(0, head).concat({ at: end[0].at, look: "note", words: bp.quantity(shown.length - head - tail, "more steps") + ", see the log", gap: true }, end);
  }
  /* Room for a time beyond the room for words: 0 for a millisecond, 22 more for every factor of a hundred. */
  function stretch(apart) { return apart > 0 ? Math.max(0, 11 * Math.log10(Math.max(apart, 1) / MS)) : 0; }
  function cut(text, space) { var most = Math.max(Math.floor(space / LETTER), 8); return text.length <= most ? text : text.slice(0, most - 1).trimEnd() + "…"; }

  bp.sequence = function (rows, marks, space) {
    var shown = shown_steps(rows), every = [];
    if (!shown.some(function (step) { return ["sent", "received", "opened"].indexOf(step.look) >= 0; })) return "";
    shown.forEach(function (step) { if (step.conn !== undefined && every.indexOf(step.conn) < 0) every.push(step.conn); });
    every.sort(function (a, b) { return a - b; });
    var conns = every.slice(0, MAX_CONNECTIONS), column = conns.length < 2 ? 220 : conns.length === 2 ? 190 : 150;
    if (space) column = Math.max(90, Math.min(column, Math.floor((space - TIME - 20 - LAST - 28) / Math.max(conns.length, 1))));
    var broker = TIME + 20 + column * Math.max(conns.length, 1), right = broker + LAST, label_x = right + SLOT * marks.bands.length + 8, places = [], knots = [], parts = [];
    function put(part) { parts.push(part); }
    /* The bounds that somebody waits for: one at the very beginning is none. */
    var bounds = [], edges = [];
    marks.bands.forEach(function (band) {
      if (band.lo > marks.first) bounds.push([band, band.lo, "not before"]);
      if (band.hi !== null) bounds.push([band, band.hi, "not after"]);
      edges.push(band.lo);
      if (band.hi !== null) edges.push(band.hi);
    });
    /* A height for every step; those of bounds lie between, in proportion. */
    var y = HEAD + 16, before = null;
    shown.forEach(function (step) {
      if (!step.gap && step.conn !== undefined && conns.indexOf(step.conn) < 0) return;
      if (before !== null) y += STEP + stretch(step.at - before) + 13 * edges.filter(function (edge) { return before < edge && edge < step.at; }).length;
      places.push([step, y]);
      if (step.wait) y += 14;
      if (before === null || step.at > before) knots.push([step.at, y]); else knots[knots.length - 1][1] = y;
      before = before === null ? step.at : Math.max(before, step.at);
    });
    var last = knots[knots.length - 1][0];
    Array.from(new Set(edges)).filter(function (edge) { return edge > last; }).sort(function (a, b) { return a - b; }).forEach(function (edge) {
      y += STEP + stretch(edge - knots[knots.length - 1][0]);
      knots.push([edge, y]);
    });
    var bottom = y + 24;
    function height(at) {
      var next = knots.findIndex(function (knot) { return knot[0] > at; });
      if (next === 0) return HEAD + 4;
      if (next < 0) return bottom - 12;
      var from = knots[next - 1], to = knots[next];
      return fixed(from[1] + (at - from[0]) / (to[0] - from[0]) * (to[1] - from[1]));
    }
    function x(conn) { return TIME + 20 + column * conns.indexOf(conn); }
    marks.bands.forEach(function (band, place) {
      var top = height(band.lo), end = band.hi === null ? bottom - 4 : Math.max(height(band.hi), top + 3);
      put(html`<rect class="band ${band.hi === null && "open"}" x="${right + SLOT * place + 8}" y="${top}" width="8" height="${fixed(end - top)}" rx="2"><title>${band_text(band)} ${band.requirements.join(", ")}</title></rect>`);
    });
    /* The labels of the dashed lines at the right, none on another. */
    var free = 0, labels = {}, longest = 0;
    bounds.forEach(function (bound) {
      var at = height(bound[1]), text = cut(bound[0].label, 240) + ": " + bound[2] + " " + bp.duration(bound[1]);
      put(html`<line class="bound" x1="${TIME}" y1="${at}" x2="${label_x - 4}" y2="${at}"/>`);
      labels[at + " " + text] = [at, text];
      longest = Math.max(longest, text.length);
    });
    Object.keys(labels).map(function (key) { return labels[key]; }).sort(function (a, b) { return a[0] - b[0] || (a[1] < b[1] ? -1 : 1); }).forEach(function (label) {
      var at = Math.max(label[0] + 4, free);
      put(html`<text class="bound" x="${label_x}" y="${fixed(at)}">${label[1]}</text>`);
      free = at + 13;
    });
    bottom = fixed(Math.max(bottom, free));
    conns.forEach(function (conn) {
      function place_of(look, otherwise) { var place = places.find(function (place) { return place[0].conn === conn && place[0].look === look; }); return fixed(place ? place[1] : otherwise); }
      var at = x(conn), opened = place_of("opened", HEAD), ended = place_of("ended", bottom - 6);
      put(html`<text class="lane mid" x="${Math.max(at, 46)}" y="${HEAD - 10}">connection ${conn}</text><line class="before" x1="${at}" y1="${HEAD - 4}" x2="${at}" y2="${opened}"/><line class="life" x1="${at}" y1="${opened}" x2="${at}" y2="${ended}"/>`);
    });
    put(html`<line class="life" x1="${broker}" y1="${HEAD}" x2="${broker}" y2="${bottom - 6}"/><text class="lane mid" x="${broker}" y="${HEAD - 10}">broker</text>`);
    var above = "";
    places.forEach(function (place) {
      var step = place[0], at = fixed(place[1]), time = bp.duration(step.at), left = step.conn === undefined ? 0 : x(step.conn);
      if (time !== above) { put(html`<text class="tick end" x="${TIME - 8}" y="${at + 4}">${time}</text>`); above = time; }
      if (step.look === "sent" || step.look === "received") {
        var from = left + 3, to = broker - 3, sent = step.look === "sent";
        put(html`<line class="${step.look} ${step.style}" x1="${from}" y1="${at}" x2="${to}" y2="${at}"/><path class="tip ${step.look}" d="M${sent ? to : from} ${at}l${sent ? -7 : 7} -4v8z"/>`);
        put(html`<text class="label ${step.look}" x="${from + 8}" y="${fixed(at - 4)}">${cut(step.words, Math.min(to - from, 330) - 14)}<title>${step.words}</title></text>`);
      } else if (step.look === "opened") put(html`<circle class="open" cx="${left}" cy="${at}" r="4"/><text class="note" x="${left + 9}" y="${fixed(at + 4)}">${step.words}</text>`);
      else if (step.look === "ended") put(html`<path class="end ${step.style}" d="M${left - 5} ${fixed(at - 5)}l10 10m0 -10l-10 10"/><text class="label end ${step.style}" x="${left + 11}" y="${fixed(at + 4)}">${step.words}</text>`);
      else {
        /* On a ground of its own, so that no lifeline runs through the words. */
        var space_for = right - TIME - 24, text = cut(step.words, space_for), wide = Math.max(text.length, (step.wait || "").length) * LETTER * 1.2 + 14;
        put(html`<rect class="${step.look} ground" x="${TIME + 4}" y="${fixed(at - 10)}" width="${fixed(Math.min(wide, space_for + 14))}" height="${step.wait ? 34 : 20}" rx="3"/>`);
        put(html`<text class="${step.look}" x="${TIME + 11}" y="${fixed(at + 4)}">${text}<title>${step.words}</title></text>`);
        if (step.wait) put(html`<text class="${step.look}" x="${TIME + 11}" y="${fixed(at + 18)}">${cut(step.wait, space_for)}</text>`);
      }
    });
    var width = Math.round(label_x + LETTER * longest + 20);
    return html`<svg class="sequence" viewBox="0 0 ${width} ${bottom}" width="${width}" role="img" aria-label="Sequence diagram: ${bp.quantity(places.length, "steps")}, ${bp.quantity(conns.length, "connections")}, ${bp.quantity(marks.bands.length, "expected intervals")}; the log below says the same">${parts}</svg>`;
  };

  /* A quantity over time as a stepped curve with its bounds. Where many changes share an instant, as in virtual time, they stand in their order, evenly. */
  function in_order(curve) { return new Set(curve.points.map(function (point) { return point[0]; })).size * 3 < curve.points.length; }
  /* A bound far above everything would press the curve flat; the caption names it. */
  function near(curve, values) { var most = 4 * Math.max.apply(null, values.concat(1)); return curve.bounds.filter(function (bound) { return bound[0] <= most; }); }
  function short(value) { return Math.abs(value) >= 1e7 ? value / 1e6 + "\u202fM" : Math.abs(value) >= 1e4 ? value / 1000 + "\u202fk" : String(value); }
  bp.curve_in_words = function (curve) {
    var values = curve.points.map(function (point) { return point[1]; }), most = Math.max.apply(null, values), peak = curve.points.find(function (point) { return point[1] === most; });
    var bounds = curve.bounds.map(function (bound) { return bound[0] ? bound[1] + " " + bp.quantity(bound[0], curve.unit) : bound[1]; }).join(", ");
    return curve.title + ": from " + bp.quantity(Math.min.apply(null, values), curve.unit) + " to " + bp.quantity(most, curve.unit) + ", at most at " + bp.duration(peak[0])
      + (bounds ? "; " + (curve.bounds.length === 1 ? "bound" : "bounds") + ": " + bounds : "") + (in_order(curve) ? "; in the order of the frames" : "");
  };
  /* context: the first violation of the example, and the frames that matter (bp.notes). */
  bp.plot = function (curve, context) {
    var violation = context && context.violation, notes = context ? context.notes : [], head = violation ? 16 : 0;
    var width = 560, height = 150 + head, left = 64, right = 548, top = 20 + head, foot = 24, ordered = in_order(curve), parts = [], taken = [], lines = [];
    var values = curve.points.map(function (point) { return point[1]; }), places = curve.points.map(function (point, at) { return ordered ? at : point[0]; });
    var end = violation ? ordered ? places.length : Math.max(violation.at, places[places.length - 1]) : places[places.length - 1], last = Math.max(end, places[0] + 1), bounds = near(curve, values), levels = values.concat(bounds.map(function (bound) { return bound[0]; }));
    var low = Math.min.apply(null, levels.concat(0)), high = Math.max(Math.max.apply(null, levels), low + 1);
    var scale = bp.scale(places.concat(last), ordered ? [[places[0], last]] : [], left, right - left), x = scale.x;
    function y(value) { return fixed(top + (high - value) / (high - low) * (height - top - foot)); }
    var rise = 1;
    while ((high - low) / rise > 4) rise *= /^2/.test(rise) ? 2.5 : 2;
    for (var mark = Math.ceil(low / rise) * rise; mark <= high; mark += rise) parts.push(html`<line class="grid" x1="${left}" y1="${y(mark)}" x2="${right}" y2="${y(mark)}"/><text class="tick end" x="${left - 6}" y="${y(mark) + 4}">${short(mark)}</text>`);
    function tick(place, at) {
      var text = bp.duration(at), half = text.length * 3.2;
      parts.push(html`<text class="tick" x="${fixed(Math.min(Math.max(x(place), left - 8 + half), right + 8 - half))}" y="${height - 7}">${text}</text>`);
    }
    var labelled = null;
    if (!ordered) scale.ticks(76).forEach(function (at) { tick(at, at); });
    else curve.points.forEach(function (point, place) {
      if (labelled && (point[0] === labelled[1] || place - labelled[0] < (last - places[0]) / 5)) return;
      tick(place, point[0]);
      labelled = [place, point[0]];
    });
    if (violation) {
      var at = ordered ? last : violation.at, words = violated_here(violation), from = ordered || !violation.waited ? null : Math.max(violation.last.at, places[0]);
      if (from !== null && from < at) parts.push(html`<rect class="waited" x="${x(from)}" y="${top}" width="${fixed(x(at) - x(from))}" height="${height - top - foot}"/>`);
      parts.push(html`<line class="violated" x1="${x(at)}" y1="18" x2="${x(at)}" y2="${height - foot}"/><text class="violated before" x="${Math.max(Math.min(x(at) + 4, right + 8), left + room(words))}" y="13">${words}</text>`);
    }
    bounds.forEach(function (bound) { parts.push(html`<line class="bound" x1="${left}" y1="${y(bound[0])}" x2="${right}" y2="${y(bound[0])}"/>`); });
    var path = "M" + x(places[0]) + " " + y(values[0]);
    function line(x1, y1, x2, y2) { lines.push([Math.min(x1, x2), Math.min(y1, y2), Math.max(x1, x2), Math.max(y1, y2)]); }
    for (var next = 1; next < places.length; next++) {
      path += "H" + x(places[next]) + "V" + y(values[next]);
      line(x(places[next - 1]), y(values[next - 1]), x(places[next]), y(values[next - 1]));
      line(x(places[next]), y(values[next - 1]), x(places[next]), y(values[next]));
    }
    line(x(places[places.length - 1]), y(values[values.length - 1]), x(last), y(values[values.length - 1]));
    parts.push(html`<path class="curve" d="${path}H${x(last)}"/>`);
    scale.breaks.forEach(function (gap) { parts.push(break_mark(scale, gap, height - foot, true)); });
    /* The first of some places for a label at which it lies on nothing, else the one on which it lies on least. */
    function free(text, candidates) {
      var wide = room(text);
      return candidates.map(function (candidate) {
        var start = candidate[2] === "before" ? candidate[0] - wide : candidate[2] === "mid" ? candidate[0] - wide / 2 : candidate[0], box = [start, candidate[1] - 10, start + wide, candidate[1] + 2];
        var hits = lines.concat(taken).filter(function (other) { return other[0] < box[2] && box[0] < other[2] && other[1] < box[3] && box[1] < other[3]; }).length + (box[0] < left || box[2] > right + 8 || box[1] < top - 12 || box[3] > height - foot ? 5 : 0);
        return { at: candidate, box: box, hits: hits };
      }).reduce(function (best, other) { return other.hits < best.hits ? other : best; });
    }
    bounds.forEach(function (bound) {
      var text = bound[0] ? bound[1] + ": " + bp.quantity(bound[0], curve.unit) : bound[1], above = y(bound[0]) - 4, below = y(bound[0]) + 12, middle = (left + right) / 2;
      var label = free(text, [[left + 4, above, ""], [right, above, "before"], [middle, above, "mid"], [left + 4, below, ""], [right, below, "before"], [middle, below, "mid"]]);
      taken.push(label.box);
      parts.push(html`<text class="bound ${label.at[2]}" x="${label.at[0]}" y="${fixed(label.at[1])}">${text}</text>`);
    });
    /* The frames that matter, at the steps that they make: the last first. */
    var named = 0, seen = {};
    if (!ordered) notes.slice().sort(function (a, b) { return b.weight - a.weight || b.at - a.at; }).forEach(function (note) {
      var step = curve.points.map(function (point) { return point[0]; }).lastIndexOf(note.at);
      if (step < 0 || named >= 5 || seen[note.at]) return;
      var px = x(places[step]), py = y(values[step]), label = free(note.label, [[px + 5, py - 5, ""], [px - 5, py - 5, "before"], [px + 5, py + 12, ""], [px - 5, py + 12, "before"]]);
      if (label.hits > 1) return;
      seen[note.at] = true;
      named += 1;
      taken.push(label.box);
      parts.push(html`<circle class="step" cx="${px}" cy="${py}" r="2.6"/><text class="label ${label.at[2]}" x="${fixed(label.at[0])}" y="${fixed(label.at[1])}">${note.label}</text>`);
    });
    return html`<svg class="plot" viewBox="0 0 ${width} ${height}" role="img" aria-label="${bp.curve_in_words(curve)}${violation && "; " + violated_here(violation)}">${parts}</svg>`;
  };
})();
