/* Events of a recording in words: durations, quantities, the lines of the log. Nothing here touches the page. */
(function () {
  "use strict";
  var bp = window.brokerproof = {}, MS = 1e6, S = 1e9, THIN = "\u202f";
  var UNITS = [["h", 3600 * S], ["min", 60 * S], ["s", S], ["ms", MS], ["µs", 1000], ["ns", 1]];

  /* A template whose values are escaped, but for what is markup already, and lists of that. */
  function Markup(text) { this.text = text; }
  Markup.prototype.toString = function () { return this.text; };
  function safe(value) {
    if (value instanceof Markup) return value.text;
    if (Array.isArray(value)) return value.map(safe).join("");
    if (value === null || value === undefined || value === false) return "";
    return String(value).replace(/[&<>"']/g, function (sign) { return "&#" + sign.charCodeAt(0) + ";"; });
  }
  bp.html = function (texts) {
    var values = arguments;
    return new Markup(texts.reduce(function (made, text, at) { return made + safe(values[at]) + text; }));
  };

  function grouped(digits) { return String(digits).replace(/\B(?=(\d{3})+$)/g, THIN); }
  function trimmed(value, scale) {
    var text = (value / scale).toFixed(Math.abs(value) < 1000 * scale ? 3 : 1).replace(/\.?0+$/, "").split(".");
    return grouped(text[0]) + (text[1] ? "." + text[1] : "");
  }
  /* Up to four significant figures and the unit that suits: minutes and hours only where exact or large, "90 s" reads better than "1.5 min". */
  bp.duration = function (ns) {
    if (!ns) return "0 s";
    var size = Math.abs(ns);
    for (var at = 0; at < UNITS.length; at++) {
      var unit = UNITS[at][0], scale = UNITS[at][1];
      if (size >= scale && (scale <= S || size >= 10 * scale || size % scale === 0)) return trimmed(ns, scale) + " " + unit;
    }
    return ns + " ns";
  };
  /* Recordings use the specifications' word octets. A value too large for a number is text. */
  bp.quantity = function (value, unit) {
    if (value === null || value === undefined) return "∞";
    if (unit === "ns") return bp.duration(Number(value));
    unit = unit === "octets" ? "bytes" : unit;
    return grouped(value) + " " + (Math.abs(Number(value)) === 1 ? unit.replace(/ies$/, "y").replace(/s$/, "") : unit);
  };
  bp.between = function (low, high, unit) {
    var least = low === null || low === undefined, most = high === null || high === undefined;
    if (least && most) return "anything";
    if (low === high) return "exactly " + bp.quantity(low, unit);
    if (most) return "at least " + bp.quantity(low, unit);
    return least ? "at most " + bp.quantity(high, unit) : bp.quantity(low, unit) + " to " + bp.quantity(high, unit);
  };
  /* An instant of the log: seconds with six decimals. */
  bp.clock = function (ns) {
    var micros = Math.floor(Math.abs(ns) / 1000);
    return (ns < 0 ? "-" : "") + Math.floor(micros / 1e6) + "." + String(micros % 1e6).padStart(6, "0");
  };
  /* The smallest round step that cuts span in at most so many. */
  var STEPS = [];
  for (var power = 0; power < 9; power++) [1, 2, 5].forEach(function (factor) { STEPS.push(factor * Math.pow(10, power)); });
  [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400].forEach(function (seconds) { STEPS.push(seconds * S); });
  bp.step = function (span, most) {
    var least = Math.max(span, 1) / most, day = STEPS[STEPS.length - 1];
    return STEPS.find(function (width) { return width >= least; }) || day * Math.ceil(least / day);
  };

  /* Rows with the number of each event in its example: where events were left out, the data has it. */
  bp.numbered = function (rows) {
    var number = 0;
    rows.forEach(function (row, place) { row.place = place; row.number = number = row.index || number + 1; });
    return rows;
  };
  bp.ending = function (row) {
    var manner = row.how === "EOF" ? "closed" : row.how === "RESET" ? "reset" : String(row.how).toLowerCase();
    return manner + (row.kind === "ConnectionClosed" ? " by the broker" : " by the harness");
  };

  var FOLD_FROM = 4;
  function likeness(row) {
    var unbroken = row.number - row.place;
    if (/^HeartBeat/.test(row.kind)) return [row.kind, row.conn, unbroken].join(" ");
    if (/^Frame/.test(row.kind)) return [row.kind, row.conn, row.command, unbroken].join(" ");
    if (row.kind === "IntervalExpected") return [row.kind, row.label, row.lo_ns, row.hi_ns, unbroken].join(" ");
    return "alone " + row.place;
  }
  /* Every row, alone or with similar neighbours: heartbeats, frames of one command, an expectation of several requirements. */
  bp.steps = function (rows) {
    var steps = [], group = [], like = null;
    function close() {
      if (group.length && (group[0].kind === "IntervalExpected" || group.length >= FOLD_FROM)) steps.push(group);
      else group.forEach(function (row) { steps.push([row]); });
    }
    rows.forEach(function (row) {
      var key = likeness(row);
      if (key !== like) { close(); group = []; like = key; }
      group.push(row);
    });
    close();
    return steps;
  };
  /* Steps with the number of events that were left out before each. */
  bp.steps_and_gaps = function (rows, see) {
    var before = null;
    bp.steps(rows).forEach(function (group) {
      see(group, before !== null && group[0].number > before + 1 ? group[0].number - before - 1 : 0);
      before = group[group.length - 1].number;
    });
  };

  var BODY = 200, HEADERS = 40, NAMED = { 10: "\\n", 13: "\\r", 9: "\\t", 92: "\\\\" };
  /* The beginning of size bytes, a character a byte: printable ASCII as it is, the rest escaped as Python does. */
  bp.shown = function (text, size) {
    var beginning = (text || "").slice(0, BODY).replace(/[^\x20-\x5b\x5d-\x7e]/g, function (sign) {
      var code = sign.charCodeAt(0);
      return NAMED[code] || "\\x" + code.toString(16).padStart(2, "0");
    });
    return size > BODY ? beginning + " … (" + bp.quantity(size, "octets") + ")" : beginning;
  };
  function way(kind) { return /Sent$/.test(kind) ? "sent" : "received"; }
  function with_requirement(note, requirement) { return requirement ? note + " (" + requirement + ")" : note; }
  function line(at, row, kind, title, note, more) {
    return Object.assign({ at: at, conn: row.conn === undefined ? "" : String(row.conn), way: "", kind: kind, title: title, note: note || "", headers: [], body: "", inside: [] }, more);
  }
  function in_words(row) {
    var at = bp.clock(row.at), kind = row.kind, detail = row.detail || "";
    switch (kind) {
      case "FrameSent": case "FrameReceived":
        var headers = (row.headers || []).slice();
        if (headers.length === HEADERS) headers.push(["…", "further headers are not shown"]);
        return line(at, row, "frame", row.command || "?", row.size ? bp.quantity(row.size, "octets") : "", { way: way(kind), headers: headers, body: bp.shown(row.body, row.body_size || 0) });
      case "HeartBeatSent": case "HeartBeatReceived": return line(at, row, "beat", "heartbeat", "", { way: way(kind) });
      case "OctetsSent": case "OctetsRefused":
        var size = row.data_size || 0;
        return line(at, row, "octets", "bytes", detail || bp.quantity(size, "octets") + ", not a well-formed frame", { way: way(kind), body: bp.shown(row.data, size) });
      case "ConnectionOpened": return line(at, row, "open", "opened", row.protocol + " on acceptor " + (row.acceptor || "") + (row.remote ? " to " + row.remote : ""));
      case "ConnectionClosed": return line(at, row, "end broker", bp.ending(row), row.how, { way: "end" });
      case "ConnectionAbandoned": return line(at, row, "end harness", bp.ending(row), row.how, { way: "end" });
      case "IntervalExpected":
        var upper = row.hi_ns === undefined ? "any time later" : bp.clock(row.hi_ns);
        return line(at, row, "expects", "expected: " + row.label, with_requirement("between " + bp.clock(row.lo_ns) + " and " + upper, row.requirement));
      case "Measured":
        return line(at, row, "measured", "measured: " + row.label, with_requirement(bp.quantity(row.value, row.unit) + "; expected " + bp.between(row.lo, row.hi, row.unit), row.requirement));
      case "Judged": var seen = String(row.seen).toLowerCase(); return line(at, row, "judged " + seen, row.requirement + " " + seen.replace(/_/g, " "), detail);
      case "JitterMeasured": return line(at, row, "host", "this host", "its timer was " + bp.duration(row.late_ns) + " late");
      case "Advanced": return line(at, row, "note", "let " + bp.duration(row.duration_ns) + " pass");
      case "Observed": return line(at, row, "observed", "the broker used code for " + row.requirement, detail);
      case "ExampleStarted": return line(at, row, "note", "example " + row.example, detail);
      case "OctetsSentUnseen": case "OctetsReceivedUnseen":
        return line(at, row, "octets", (row.size ? bp.quantity(row.size, "octets") : "bytes") + " missing in the recording", detail, { way: kind === "OctetsSentUnseen" ? "sent" : "received" });
    }
    var words = { CaseStarted: "case began", CaseEnded: "case ended", LinkFaulted: "link disturbed", Noted: "note" };
    return line(at, row, "note", words[kind] || kind, detail);
  }
  function in_short(row) {
    var words = in_words(row), headers = words.headers.map(function (header) { return header.join(":"); }).join(" ");
    return [words.at, words.note, headers, words.body].filter(Boolean).join("  ");
  }
  function range(values, words) {
    var least = words(Math.min.apply(null, values)), most = words(Math.max.apply(null, values));
    return least === most ? least : least + " to " + most;
  }
  /* One line an event, what repeats itself folded. */
  bp.lines = function (rows) {
    var lines = [];
    bp.steps_and_gaps(rows, function (group, missing) {
      var first = group[0], last = group[group.length - 1];
      if (missing) lines.push(line("", {}, "left-out", bp.quantity(missing, "events") + " not shown"));
      if (group.length === 1) lines.push(in_words(first));
      else if (first.kind === "IntervalExpected") {
        var named = group.map(function (row) { return row.requirement; }).filter(Boolean);
        lines.push(in_words(Object.assign({}, first, { requirement: named.join(", ") })));
      } else if (/^HeartBeat/.test(first.kind)) {
        var beats = in_words(first), apart = group.slice(1).map(function (row, at) { return row.at - group[at].at; });
        beats.title = group.length + " heartbeats";
        beats.note = "until " + bp.clock(last.at) + ", " + range(apart, bp.duration) + " apart";
        lines.push(beats);
      } else {
        /* Frames of one command: the first and the last as they are, the others in one line. */
        var others = group.slice(1, -1), size = range(others.map(function (row) { return row.size || 0; }), function (value) { return bp.quantity(value, "octets"); });
        lines.push(in_words(first));
        lines.push(line(bp.clock(others[0].at), first, "folded", others.length + " more " + first.command, "until " + bp.clock(others[others.length - 1].at) + ", " + size + " each", { way: way(first.kind), inside: others.map(in_short) }));
        lines.push(in_words(last));
      }
    });
    return lines;
  };

  /* Frames that settle deliveries, grant credit or refuse something, in any protocol. */
  var DECISIVE = /ack|flow|credit|token|disposition|reject|pull|qos|error|blocked|exception|close|^end$/i;
  bp.is_decisive = function (row) { return /^Frame/.test(row.kind) && !row.broker && DECISIVE.test(row.command || ""); };
  function on_the_wire(row) { return !row.broker && /^(Frame|HeartBeat|Octets|Connection)/.test(row.kind); }
  /* The violations of an example: when, of what, and how long nothing had arrived before, where that is long enough to be a wait. */
  var LEAST_WAIT = S;
  bp.violations = function (rows) {
    return rows.filter(function (row) { return row.kind === "Judged" && row.seen === "VIOLATED" && !row.broker; }).map(function (row) {
      var last = null, beats = false, number = row.number;
      for (var at = row.place - 1; at >= 0 && !last && rows[at].number === number - 1; at--) {
        number = rows[at].number;
        if (rows[at].kind === "HeartBeatReceived") beats = true;
        else if (!/^HeartBeat/.test(rows[at].kind) && on_the_wire(rows[at])) last = rows[at];
      }
      var waited = last && row.at - last.at >= LEAST_WAIT ? row.at - last.at : 0;
      return { at: row.at, place: row.place, requirement: row.requirement, detail: row.detail || "", last: last, waited: waited,
        wait: waited ? (beats ? "nothing but heartbeats" : "nothing") + " arrived for " + bp.duration(Number(waited.toPrecision(3))) : "" };
    });
  };
  /* Rows of the frames around a violation that a reader needs: the decisive ones, the last ones on the wire, what was judged. */
  bp.deciding = function (rows, most) {
    var end = bp.violations(rows)[0], upto = end ? end.place : rows.length - 1, before = rows.slice(0, upto + 1), chosen = new Set();
    function take(row) { if (row && chosen.size < most) chosen.add(row); }
    take(end && rows[upto]);
    before.filter(function (row) { return /^Frame(Sent|Received)$/.test(row.kind) && !row.broker; }).slice(-4).forEach(take);
    before.filter(function (row) { return row.kind === "Judged" || row.kind === "Measured"; }).slice(-3).forEach(take);
    before.filter(bp.is_decisive).reverse().forEach(take);
    before.filter(function (row) { return /^Connection(Closed|Abandoned)$/.test(row.kind); }).forEach(take);
    /* Who asked for what: the first frame of each command that the harness sent. */
    var seen = new Set();
    before.forEach(function (row) { if (row.kind === "FrameSent" && !seen.has(row.conn + row.command)) { seen.add(row.conn + row.command); take(row); } });
    return rows.filter(function (row) { return chosen.has(row); });
  };

  /* One sentence a connection on how it closed. */
  bp.endings = function (rows) {
    var opened = {}, last = {}, sentences = {};
    rows.forEach(function (row) {
      var conn = row.conn;
      if (conn === undefined || row.broker) return;
      if (row.kind === "ConnectionOpened") opened[conn] = true;
      else if (row.kind === "ConnectionClosed" || row.kind === "ConnectionAbandoned") {
        var previous = last[conn], after = !previous ? "" : row.at > previous[1] ? ", " + bp.duration(row.at - previous[1]) + " after " + previous[0] : ", right after " + previous[0];
        sentences[conn] = sentences[conn] || "Connection " + conn + " was " + bp.ending(row) + " at " + bp.duration(row.at) + after + ".";
      } else if (row.kind === "FrameReceived") last[conn] = ["it sent " + row.command, row.at];
      else if (row.kind === "FrameSent") last[conn] = ["the harness sent " + row.command, row.at];
    });
    Object.keys(opened).forEach(function (conn) { sentences[conn] = sentences[conn] || "Connection " + conn + " was still open when the trace ended."; });
    return Object.keys(sentences).map(Number).sort(function (a, b) { return a - b; }).map(function (conn) { return sentences[conn]; });
  };
})();
