/* Drawings of one example as inline SVG: time axis, sequence, curves, gauges. Every text in them is escaped. */
(function () {
  "use strict";
  var bp = window.brokerproof, html = bp.html, MAX_LANES = 8, MAX_BANDS = 12, MS = 1e6;
  var SENT = { FrameSent: "frame", HeartBeatSent: "beat", OctetsSent: "octets" };
  var RECEIVED = { FrameReceived: "frame", HeartBeatReceived: "beat", OctetsRefused: "octets" };
  function fixed(value) { return +value.toFixed(1); }

  /* What stands on the axis: lanes with ticks, expected intervals, the canary, gaps; instants in nanoseconds since the first event. */
  bp.marks = function (rows) {
    var lanes = {}, jitter = [], merged = {}, gaps = [], before = null;
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
        lane.ticks.push({ at: row.at, sent: !!SENT[row.kind], kind: what, label: what === "frame" ? row.command || "?" : what === "beat" ? "heartbeat" : "bytes" });
      }
    });
    var every = Object.keys(merged).map(function (key) { return merged[key]; }), bands = every.slice(0, MAX_BANDS), edges = [0];
    bands.forEach(function (band) { edges.push(band.lo); if (band.hi !== null) edges.push(band.hi); });
    var conns = Object.keys(lanes).map(Number).sort(function (a, b) { return a - b; });
    return { first: Math.min.apply(null, edges), last: Math.max.apply(null, edges.concat(rows.map(function (row) { return row.at; }))),
      lanes: conns.slice(0, MAX_LANES).map(function (conn) { return lanes[conn]; }), bands: bands, jitter: jitter, gaps: gaps,
      lanes_left_out: Math.max(0, conns.length - MAX_LANES), bands_left_out: Math.max(0, every.length - MAX_BANDS) };
  };
  function band_text(band) { return band.label + ": " + bp.duration(band.lo) + " … " + (band.hi === null ? "any time later" : bp.duration(band.hi)); }

  /* Roughly how wide a small and a capital letter of the 11 px labels are. */
  function room(text) { var capitals = (text.match(/\p{Lu}/gu) || []).length; return capitals * 8 + (text.length - capitals) * 6; }
  var WIDTH = 1000, LEFT = 92, RIGHT = 24, BAND = 26, LANE = 78, FOOT = 40;
  bp.axis = function (marks) {
    var span = Math.max(marks.last - marks.first, 1), lo = marks.first - Math.floor(span / 50), whole = WIDTH - LEFT - RIGHT;
    function ending_room(end) { return 14 + 1.12 * room(end.label + ", " + bp.duration(end.at)); }
    /* The words at the end of a lane have room behind it. */
    var hi = Math.max.apply(null, [marks.last + Math.floor(span / 20) + 1].concat(marks.lanes.map(function (lane) {
      return lane.end ? lo + Math.floor((lane.end.at - lo) / (Math.max(WIDTH - LEFT - ending_room(lane.end), 0.6 * whole) / whole)) + 1 : lo;
    })));
    var top = 14 + BAND * marks.bands.length, bottom = top + LANE * Math.max(marks.lanes.length, 1), parts = [];
    function x(at) { return fixed(LEFT + (at - lo) / (hi - lo) * whole); }
    function put(part) { parts.push(part); }
    var stride = bp.step(hi - lo, 10);
    for (var at = Math.ceil(lo / stride) * stride; at <= hi; at += stride) {
      put(html`<line class="grid" x1="${x(at)}" y1="8" x2="${x(at)}" y2="${bottom}"/><text class="tick" x="${x(at)}" y="${bottom + 15}">${bp.duration(at)}</text>`);
    }
    put(html`<line class="base" x1="${LEFT}" y1="${bottom}" x2="${WIDTH - RIGHT}" y2="${bottom}"/>`);
    marks.gaps.forEach(function (gap) {
      var left = x(gap[0]), width = Math.max(x(gap[1]) - left, 3);
      put(html`<rect class="gap" x="${left}" y="${top}" width="${fixed(width)}" height="${bottom - top}" fill="url(#gap)"><title>${gap[2]} events not shown</title></rect>`);
      if (width > 130) put(html`<text class="note mid" x="${fixed(left + width / 2)}" y="${bottom - 6}">${gap[2]} events not shown</text>`);
    });
    marks.bands.forEach(function (band, row) {
      var y = 14 + BAND * row, left = x(band.lo), open = band.hi === null, width = fixed(Math.max((open ? WIDTH - RIGHT : x(band.hi)) - left, 2.5)), text = band_text(band);
      put(html`<rect class="reach ${open && "open"}" x="${left}" y="${y + 16}" width="${width}" height="${bottom - y - 16}"/>`);
      put(html`<rect class="band ${open && "open"}" x="${left}" y="${y + 14}" width="${width}" height="7" rx="2"><title>${text} ${band.requirements.join(", ")}</title></rect>`);
      put(html`<text class="label" x="${fixed(Math.max(LEFT, Math.min(left, WIDTH - RIGHT - room(text))))}" y="${y + 10}">${text}</text>`);
    });
    function ticks(of, middle, side) {
      var direction = side < 0 ? "sent" : "received", drawn = {}, clusters = [];
      of.forEach(function (tick) {
        var at = x(tick.at), key = at + tick.kind, cluster = clusters[clusters.length - 1];
        if (!drawn[key]) {
          drawn[key] = true;
          put(html`<line class="${direction} ${tick.kind}" x1="${at}" y1="${middle}" x2="${at}" y2="${middle + side * (tick.kind === "beat" ? 10 : 18)}"><title>${tick.label} ${direction} at ${bp.duration(tick.at)}</title></line>`);
        }
        if (tick.kind === "beat") return;
        /* Labels that would fall on one another, together. */
        if (cluster && at - cluster.x <= 5) cluster.labels.push(tick.label); else clusters.push({ x: at, labels: [tick.label] });
      });
      var free = 0;
      clusters.forEach(function (cluster) {
        var text = cluster.labels.length === 1 ? cluster.labels[0] : cluster.labels[0] + " +" + (cluster.labels.length - 1);
        if (cluster.x < free) return;
        put(html`<text class="label ${direction}" x="${fixed(Math.min(cluster.x - 2, WIDTH - RIGHT - room(text)))}" y="${middle + (side < 0 ? -22 : 30)}">${text}<title>${cluster.labels.slice(0, 20).join(", ")}</title></text>`);
        free = cluster.x + room(text) + 6;
      });
    }
    marks.lanes.forEach(function (lane, row) {
      var middle = top + LANE * row + LANE / 2, start = lane.opened === null ? LEFT : x(lane.opened), end = lane.end ? x(lane.end.at) : WIDTH - RIGHT;
      put(html`<text class="lane" x="8" y="${middle - 2}">connection ${lane.conn}</text><text class="note" x="8" y="${middle + 11}">${lane.acceptor.slice(0, 14)}</text>`);
      put(html`<line class="life" x1="${start}" y1="${middle}" x2="${end}" y2="${middle}"/>`);
      ticks(lane.ticks.filter(function (tick) { return tick.sent; }), middle, -1);
      ticks(lane.ticks.filter(function (tick) { return !tick.sent; }), middle, 1);
      if (!lane.end) return;
      var by = lane.end.by_broker ? "broker" : "harness", words = lane.end.label + ", " + bp.duration(lane.end.at), behind = end + ending_room(lane.end) <= WIDTH + 1;
      put(html`<path class="end ${by}" d="M${fixed(end - 5)} ${middle - 5}l10 10m0 -10l-10 10"><title>${lane.end.label} at ${bp.duration(lane.end.at)}</title></path>`);
      put(html`<text class="label end ${by} ${!behind && "before"}" x="${fixed(behind ? end + 10 : end - 10)}" y="${behind ? middle + 4 : middle - 7}">${words}</text>`);
    });
    marks.jitter.forEach(function (mark) { put(html`<path class="jitter" d="M${x(mark[0])} ${bottom + 20}l4 7h-8z"><title>canary ${bp.duration(mark[1])} late</title></path>`); });
    if (marks.jitter.length) put(html`<text class="note" x="${LEFT}" y="${bottom + 36}">canary: at most ${bp.duration(Math.max.apply(null, marks.jitter.map(function (mark) { return mark[1]; })))} late</text>`);
    return html`<svg class="axis" viewBox="0 0 ${WIDTH} ${bottom + FOOT}" role="img" aria-label="Time axis: ${marks.lanes.length} connections, ${marks.bands.length} expected intervals"><defs><pattern id="gap" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="7"/></pattern></defs>${parts}</svg>`;
  };

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
    return kind === "Judged" && row.seen === "VIOLATED" ? { look: "violated", words: "✗ " + row.requirement + " violated" } : null;
  }
  function shown_steps(rows) {
    var shown = [];
    bp.steps_and_gaps(rows, function (group, missing) {
      if (missing) shown.push({ at: group[0].at, look: "note", words: missing + " events not shown", gap: true });
      var step = step_of(group);
      if (step) { step.at = group[0].at; shown.push(step); }
    });
    if (shown.length <= MOST_STEPS) return shown;
    var head = MOST_STEPS * 2 / 3, tail = MOST_STEPS / 3, end = shown.slice(-tail);
    return shown.slice(0, head).concat({ at: end[0].at, look: "note", words: shown.length - head - tail + " more steps, see the log", gap: true }, end);
  }
  /* Room for a time beyond the room for words: 0 for a millisecond, 22 more for every factor of a hundred. */
  function stretch(apart) { return apart > 0 ? Math.max(0, 11 * Math.log10(Math.max(apart, 1) / MS)) : 0; }
  function cut(text, space) { var most = Math.max(Math.floor(space / LETTER), 8); return text.length <= most ? text : text.slice(0, most - 1).trimEnd() + "…"; }

  bp.sequence = function (rows, marks) {
    var shown = shown_steps(rows), every = [];
    if (!shown.some(function (step) { return ["sent", "received", "opened"].indexOf(step.look) >= 0; })) return "";
    shown.forEach(function (step) { if (step.conn !== undefined && every.indexOf(step.conn) < 0) every.push(step.conn); });
    every.sort(function (a, b) { return a - b; });
    var conns = every.slice(0, MAX_CONNECTIONS), column = conns.length < 2 ? 220 : conns.length === 2 ? 190 : 150;
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
      else put(html`<text class="${step.look} label" x="${TIME + 30}" y="${fixed(at + 4)}">${cut(step.words, right - TIME - 24)}<title>${step.words}</title></text>`);
    });
    var width = Math.round(label_x + LETTER * longest + 20);
    return html`<svg class="sequence" viewBox="0 0 ${width} ${bottom}" width="${width}" role="img" aria-label="Sequence diagram: ${places.length} steps, ${conns.length} connections, ${marks.bands.length} expected intervals; the log below says the same">${parts}</svg>`;
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
  bp.plot = function (curve) {
    var width = 560, height = 150, left = 64, right = 548, top = 20, foot = 24, ordered = in_order(curve), parts = [];
    var values = curve.points.map(function (point) { return point[1]; }), places = curve.points.map(function (point, at) { return ordered ? at : point[0]; });
    var first = places[0], last = Math.max(places[places.length - 1], first + 1), bounds = near(curve, values), levels = values.concat(bounds.map(function (bound) { return bound[0]; }));
    var low = Math.min.apply(null, levels.concat(0)), high = Math.max(Math.max.apply(null, levels), low + 1);
    function x(place) { return fixed(left + (place - first) / (last - first) * (right - left)); }
    function y(value) { return fixed(top + (high - value) / (high - low) * (height - top - foot)); }
    var rise = 1;
    while ((high - low) / rise > 4) rise *= /^2/.test(rise) ? 2.5 : 2;
    for (var mark = Math.ceil(low / rise) * rise; mark <= high; mark += rise) parts.push(html`<line class="grid" x1="${left}" y1="${y(mark)}" x2="${right}" y2="${y(mark)}"/><text class="tick end" x="${left - 6}" y="${y(mark) + 4}">${short(mark)}</text>`);
    function tick(place, at) {
      var text = bp.duration(at), half = text.length * 3.2;
      parts.push(html`<text class="tick" x="${fixed(Math.min(Math.max(x(place), left - 8 + half), right + 8 - half))}" y="${height - 7}">${text}</text>`);
    }
    var stride = bp.step(last - first, 5), labelled = null;
    if (!ordered) for (var at = Math.ceil(first / stride) * stride; at <= last; at += stride) tick(at, at);
    else curve.points.forEach(function (point, place) {
      if (labelled && (point[0] === labelled[1] || place - labelled[0] < (last - first) / 5)) return;
      tick(place, point[0]);
      labelled = [place, point[0]];
    });
    bounds.forEach(function (bound) { parts.push(html`<line class="bound" x1="${left}" y1="${y(bound[0])}" x2="${right}" y2="${y(bound[0])}"/>`); });
    var path = "M" + x(places[0]) + " " + y(values[0]);
    for (var next = 1; next < places.length; next++) path += "H" + x(places[next]) + "V" + y(values[next]);
    parts.push(html`<path class="curve" d="${path}H${x(last)}"/>`);
    /* A label stands over the half in which the curve keeps away from it; a curve without a step in its second half goes on as it was. */
    function crowded(level) {
      var middle = (places[0] + places[places.length - 1]) / 2, gaps = [Infinity, Infinity];
      places.forEach(function (place, at) { var half = place > middle ? 1 : 0; gaps[half] = Math.min(gaps[half], Math.abs(values[at] - level)); });
      if (gaps[1] === Infinity) gaps[1] = Math.abs(values[values.length - 1] - level);
      return gaps[1] < gaps[0];
    }
    bounds.forEach(function (bound) {
      var aside = crowded(bound[0]);
      parts.push(html`<text class="bound ${!aside && "before"}" x="${aside ? left + 4 : right}" y="${fixed(y(bound[0]) - 4)}">${bound[0] ? bound[1] + ": " + bp.quantity(bound[0], curve.unit) : bound[1]}</text>`);
    });
    return html`<svg class="plot" viewBox="0 0 ${width} ${height}" role="img" aria-label="${bp.curve_in_words(curve)}">${parts}</svg>`;
  };
})();
