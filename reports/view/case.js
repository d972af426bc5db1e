/* The page of one case, named by the fragment of the address: case=…&target=…, and run=… where the report has several. */
(function () {
  "use strict";
  var bp = window.brokerproof, html = bp.html, main = document.getElementById("main"), facts = JSON.parse(document.getElementById("facts").textContent), asked = null;
  function say(text) { main.textContent = ""; var status = document.createElement("p"); status.setAttribute("role", "status"); status.textContent = text; main.append(status); }
  function unpack(text) {
    var letters = atob(text), bytes = new Uint8Array(letters.length);
    for (var at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  }
  /* CRC-32 of target, NUL, case: the number of the chunk follows from it. */
  function chunk_of(target, name) {
    var crc = -1;
    new TextEncoder().encode(target + "\u0000" + name).forEach(function (byte) {
      crc ^= byte;
      for (var bit = 0; bit < 8; bit++) crc = crc >>> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    });
    return ((crc ^ -1) >>> 0) % facts.chunks;
  }
  bp.chunk_of = chunk_of;

  function badge(verdict) { return html`<span class="v ${verdict}" title="${verdict}: ${facts.meanings[verdict]}">${verdict}</span>`; }
  function copy(text) { return html`<div class="copied"><button type="button" class="plain copy">Copy</button><pre tabindex="0"><code>${text}</code></pre></div>`; }
  /* A name may be broken between its words, and is still found and copied as it is. */
  function breakable(name) { return name.split(/(?<=[_.])(?=\w)/).map(function (part, at) { return at ? html`<wbr>${part}` : html`${part}`; }); }
  var LEVELS = { DOC: "promised by the vendor's documentation", READING: "our reading, where the text is silent" };
  function source(words) {
    var place = (words[2] || "") + (words[3] ? ", " + words[3] : "");
    return html`${LEVELS[words[1]] || words[1] || "not in the catalogue"}${words[2] && html` · ${words[4] ? html`<a href="${words[4]}" rel="external">${place}</a>` : place}`}`;
  }
  function address(row) {
    var link = new URLSearchParams({ "case": row.case, target: row.target });
    if (facts.several) link.set("run", row.run);
    return "#" + link;
  }

  /* Violated and counted as such, listed or not. */
  function is_violated(finding) { return finding[2] === "violated" && !finding[4] && ["FAIL", "WARN", "KNOWN"].indexOf(finding[1]) >= 0; }
  function judged(row, words) {
    if (!row.findings.length) return html`<tr><td colspan="4" class="soft">The case judged no requirement.</td></tr>`;
    return row.findings.map(function (finding) {
      var of = words[finding[0]] || [];
      var id = of[5] ? html`<a href="requirements/${of[5]}.html">${of[6] || finding[0]}</a>` : html`<span>${of[6] || finding[0]}</span>`;
      var reason = finding[5] && html`<div class="soft">Known deviation: ${finding[5]} ${finding[6] && html`<a href="${finding[6]}" rel="external">${finding[6]}</a>`}</div>`;
      var violated = is_violated(finding), received = finding[3] || finding[2];
      return html`<tr><td>${badge(finding[1])}</td><th scope="row">${id}<div class="soft mono">${finding[0]}</div><div class="level">${source(of)}</div></th><td class="full">${of[0]}${violated && of[7] && html`<div><b class="out">${of[7]}</b></div>`}</td><td class="full">${violated ? html`<b class="out">${received}</b>` : received}${finding[4] && html`<div class="soft">Not certain: ${finding[4]}.</div>`}${reason}</td></tr>`;
    });
  }
  /* Figures inside their bounds that stand beside a violation; further ones are folded. */
  var MOST_INSIDE = 3;
  bp.gauges = function (row) {
    if (!row.gauges.length) return "";
    var has_margin = row.gauges.some(function (gauge) { return gauge[5]; }), outside = 0;
    var rows = row.gauges.map(function (gauge) {
      var label = gauge[0], value = gauge[1], unit = gauge[2], low = gauge[3], high = gauge[4], margin = gauge[5], rooms = [];
      if (low !== null) rooms.push(value - low);
      if (high !== null) rooms.push(high - value);
      var room = rooms.length ? Math.min.apply(null, rooms) : null, inside = room === null || room >= 0;
      if (!inside) outside += 1;
      var distance = room === null ? "" : room === 0 ? "on the bound" : bp.quantity(Math.abs(room), unit) + (room > 0 ? " inside" : " outside");
      return [inside, html`<tr><th scope="row">${label}</th><td class="num">${bp.quantity(value, unit)}</td><td class="expected">${bp.between(low, high, unit)}</td><td>${bp.gauge(Number(value), low, high, margin)}</td>${has_margin && html`<td class="margin">${margin ? "± " + bp.quantity(margin, unit) : ""}</td>`}<td>${inside ? distance : html`<b class="out">${distance}</b>${room >= -margin && ", within the margin"}`}</td></tr>`];
    });
    /* What is outside first; before that what was violated without a figure to show for it. */
    function of(is_inside) { return rows.filter(function (pair) { return pair[0] === is_inside; }).map(function (pair) { return pair[1]; }); }
    function table(lines) {
      return html`<div class="scroll"><table class="stack gauges"><thead><tr><th scope="col">Quantity</th><th scope="col" class="num">Measured</th><th scope="col">Expected</th><td></td>${has_margin && html`<th scope="col">Margin</th>`}<th scope="col">From the nearest bound</th></tr></thead><tbody>${lines}</tbody></table></div>`;
    }
    var bare = outside ? [] : (row.findings || []).filter(is_violated), inside = of(true), several = inside.length > 1;
    var violations = bare.map(function (finding) { return html`<tr class="violated"><th scope="row"><span class="mono">${finding[0]}</span> ${badge(finding[1])}</th><td colspan="${has_margin ? 5 : 4}" class="full">${finding[3] || finding[2]}</td></tr>`; });
    var first = violations.concat(of(false)), shown = first.length ? inside.slice(0, MOST_INSIDE) : inside, more = inside.slice(shown.length);
    return html`<h3>Measured against expected${row.parts.length && row.parts[0].part ? ", where it was nearest to a bound" : ""}</h3>
${bare.length > 0 && html`<p><b class="out">The violation is not a measured value: see the first ${bare.length > 1 ? "lines" : "line"}.</b> ${several ? "The " + inside.length + " values below belong" : "The value below belongs"} to other checks and ${several ? "are inside their bounds" : "is inside its bounds"}.</p>`}
${table(first.concat(shown))}${more.length > 0 && html`<details class="folded"><summary>${bp.quantity(more.length, "more figures")}, inside their bounds</summary>${table(more)}</details>`}`;
  };
  var ICONS = { sent: html`<span role="img" aria-label="sent">→</span>`, received: html`<span role="img" aria-label="received">←</span>`, end: html`<span role="img" aria-label="ended">✕</span>` };
  bp.log = function (lines) {
    return lines.map(function (line) {
      if (line.kind === "left-out") return html`<tr class="left-out"><td colspan="4">… ${line.title} …</td></tr>`;
      var content = html`<span class="title">${line.title}</span> <span class="soft">${line.note}</span>`;
      if (line.inside.length) content = html`<details><summary>${content}</summary><pre>${line.inside.join("\n")}</pre></details>`;
      var headers = line.headers.length > 0 && html`<div class="headers">${line.headers.map(function (header) { return html`<b>${header[0]}:</b>${header[1]}  `; })}</div>`;
      return html`<tr class="${line.kind} ${line.way}"><td class="at">${line.at}</td><td class="conn">${line.conn}</td><td class="way">${ICONS[line.way]}</td><td>${content}${headers}${line.body && html`<span class="body">${line.body}</span>`}</td></tr>`;
    });
  };
  function log_table(lines) { return html`<table class="log"><thead><tr><th scope="col" class="num">Seconds</th><th scope="col">Conn</th><th scope="col"><span class="unseen">Way</span></th><th scope="col">What</th></tr></thead><tbody>${bp.log(lines)}</tbody></table>`; }
  /* Of the log what a reader needs who has the finding on paper. */
  var DECIDING = 14;
  function deciding(rows, events) {
    var shown = bp.deciding(rows, DECIDING);
    if (!shown.length) return "";
    return html`<div class="printed"><h3>The deciding frames</h3><p class="soft">${bp.quantity(shown.length, "lines")} of ${bp.quantity(events, "events")}; the page on screen also shows the other ${bp.quantity(events - shown.length, "events")}.</p>${log_table(bp.lines(shown))}</div>`;
  }
  function arguments_of(start, row) {
    if (!start || !start.detail) return "";
    return html`<p class="arguments"><span class="soft">The drawn values of this example:</span> <span class="mono">${start.detail}</span>${row.arguments && row.arguments.map(function (text) { return html`<br><span class="soft">${text}</span>`; })}</p>`;
  }
  /* The width inside a figure's border and padding. */
  function room_for_drawings() { var style = getComputedStyle(main); return main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 26; }
  function example(part, first, row) {
    var space = room_for_drawings(), rows = part.rows, start = rows.find(function (row) { return row.kind === "ExampleStarted"; }), marks = bp.marks(rows), lines = bp.lines(rows), sequence = bp.sequence(rows, marks, space), endings = bp.endings(rows);
    var violations = bp.violations(rows), context = { violation: violations[0] || null, notes: bp.notes(rows) };
    var verdict = violations.map(function (violation) { return html`<p class="out"><b>✗ ${violation.requirement}</b> ${violation.detail}</p>`; });
    var again = (part.again || []).map(function (doubt) { return html`<p>The second judge, which reads only the recorded traffic, disagrees: ${doubt[1]} <span class="soft mono">${doubt[0]}</span></p>`; });
    var title = start && html`<h3>Example ${start.example}${!violations.length && html` <span class="soft">· nothing violated</span>`}</h3>`;
    var of_example = start ? " of example " + start.example : "";
    var axis = marks.last > marks.first ? html`<div class="figure" tabindex="0" role="region" aria-label="Time axis${of_example}">${bp.axis(marks, space)}</div>
<div class="legend" aria-hidden="true"><span class="is-sent"><i class="k"></i>sent, above the line</span><span class="is-received"><i class="k"></i>received, below</span>${marks.bands.length > 0 && html`<span class="is-band"><i class="k"></i>expected interval</span>`}<span class="soft">to scale, except where // marks a stretch that was cut out; short ticks are heartbeats, dashed ticks are bytes that are not a frame, ✕ is the close of a connection</span></div>`
      : html`<p class="soft">All events share one instant of virtual time, so there is no time axis.</p>`;
    var left_out = [[marks.lanes_left_out, "further connections"], [marks.bands_left_out, "further intervals"]].map(function (pair) { return pair[0] ? html`<p class="soft">Not drawn: ${bp.quantity(pair[0], pair[1])}.</p>` : ""; });
    var plots = part.curves.length > 0 && html`<div class="plots">${part.curves.map(function (curve) { return html`<figure class="plot">${bp.plot(curve, context)}<figcaption>${bp.curve_in_words(curve)}</figcaption></figure>`; })}</div>`;
    return html`${title}${verdict}${again}${arguments_of(start, row)}${axis}${left_out}${plots}${first && deciding(rows, part.events)}${sequence && html`<details class="unprinted" ${first && lines.length <= 90 && "open"}><summary>The conversation, step by step <span class="soft">· time runs down, silences are shortened; dashed lines are deadlines and bounds</span></summary><div class="figure" tabindex="0" role="region" aria-label="Sequence diagram${of_example}">${sequence}</div></details>`}
<details class="unprinted" ${first && lines.length <= 60 && "open"}><summary>The log <span class="soft">· ${bp.quantity(lines.length, "lines")} of ${bp.quantity(part.events, "events")}</span></summary>
${log_table(lines)}</details>
<h3>How it closed</h3><ul class="plain">${endings.length ? endings.map(function (text) { return html`<li>${text}</li>`; }) : html`<li>No connection was opened.</li>`}</ul>`;
  }
  /* How many examples there are, how many failed, and which of them the page has. */
  function examples_in_words(row) {
    if (!row.examples) return "";
    var failing = row.failing || 0, shown = row.parts.length, of_failing = Math.min(failing, shown), rest = shown - of_failing;
    var text = failing ? failing + " of " + bp.quantity(row.examples, "examples") + " failed. " : row.examples > 1 ? bp.quantity(row.examples, "examples") + ", none of which violated anything. " : "";
    if (row.examples > shown) text += "Shown: " + [of_failing ? (of_failing === failing ? failing > 1 ? "all that failed" : "the one that failed" : of_failing + " that failed") : "", rest ? (rest > 1 ? rest + " that were" : "the one that was") + " nearest to a bound" : ""].filter(Boolean).join(", ") + ". ";
    return text + (of_failing > 1 && !smaller(row) ? "The one that the headline quotes is first." : "");
  }
  function smaller(row) {
    var kept_one = row.counterexample || [], start = row.parts.length ? row.parts[0].rows.find(function (row) { return row.kind === "ExampleStarted"; }) : null;
    return kept_one.length && start && kept_one[0] !== start.detail ? kept_one : null;
  }

  /* Why a reader may take the finding for the broker's. */
  function certainty(row, target, run) {
    if (["FAIL", "WARN", "KNOWN"].indexOf(row.verdict) < 0) return "";
    var lines = [], violation = row.parts.length ? bp.violations(row.parts[0].rows)[0] : null;
    function say_that(what, text) { lines.push(html`<dt>${what}</dt><dd>${text}</dd>`); }
    if (row.examples) say_that("examples", (row.failing || 0) + " of " + bp.quantity(row.examples, "examples") + " violated it" + (row.failing < row.examples ? "; the others violated nothing" : "") + ".");
    if (target.clock === "VIRTUAL") say_that("repeated", "Not needed: in virtual time every run with this seed is the same, and the host's delays do not matter.");
    if (target.clock === "REAL" && row.verdict === "FAIL" && !run.load) {
      /* A case that ends for a missing capability is not run again; its other findings are skipped. */
      var broke_off = row.findings.some(function (finding) { return finding[1] === "SKIP" || finding[2] === "never reached"; });
      say_that("repeated", broke_off ? "No: the case ended too early." : "The failing example was run once more after " + (row.attempts > 1 ? row.attempts + " attempts at the case" : "the case") + ", and failed again. What does not fail again is INCONCLUSIVE.");
    }
    if (target.clock === "REAL") {
      var late = target.late || [], figures = row.gauges.some(function (gauge) { return gauge[2] === "ns" && (gauge[3] !== null && gauge[1] < gauge[3] || gauge[4] !== null && gauge[1] > gauge[4]); }), explains = "";
      if (late.length && violation && violation.waited) explains = 5 * late[1] < violation.waited ? " This delay cannot explain why nothing arrived for " + bp.duration(Number(violation.waited.toPrecision(3))) + "." : " This delay is long compared with the wait of " + bp.duration(Number(violation.waited.toPrecision(3))) + " and may explain the finding: run the case on an idle host.";
      else if (figures) explains = " The bounds already allow for the delay measured during the case; see the margin.";
      else if (late.length && violation) explains = " The finding depends on a frame and not on a wait, so a delay cannot explain it.";
      say_that("this host", late.length ? "Its timer was at most " + bp.duration(late[1]) + " late during the run, and at most " + bp.duration(late[0]) + " late in 99 of 100 measurements." + explains : "The run did not measure this host's delays." + explains);
    }
    if (violation) {
      var before = row.parts[0].rows.slice(0, violation.place), held = before.filter(function (event) { return event.kind === "Judged" && event.seen === "HELD"; }), answered = before.filter(function (event) { return event.kind === "FrameReceived" && !event.broker && !/error|close|^end$|exception/i.test(event.command); }).pop(), controls = [];
      if (answered) controls.push("The broker still sent " + answered.command + " on connection " + answered.conn + " at " + bp.duration(answered.at));
      if (held.length) controls.push(bp.quantity(held.length, "checks") + " passed before it in the same example (" + held[held.length - 1].requirement + ": " + held[held.length - 1].detail + ")");
      if (controls.length) say_that("controls that held", controls.join(". ") + ".");
    }
    if (row.baseline) say_that("since when", since(row.baseline, row.verdict));
    lines.push(html`<dt>check it</dt><dd><a href="#try" data-section="try">Try it yourself</a> · <a href="#contest" data-section="contest">If you think this is wrong</a></dd>`);
    return html`<h2>How certain this is</h2><dl class="facts certainty">${lines}</dl>`;
  }
  function since(baseline, verdict) {
    var named = "In the baseline " + baseline[0] + (baseline[1] ? ", started " + baseline[1].slice(0, 16).replace("T", " ") : "") + ", ";
    return named + (!baseline[2] ? "this case was not run." : baseline[2] === verdict ? "this case had the same verdict." : "this case was " + baseline[2] + ".");
  }
  function kept(row) {
    if (!row.kept || !row.kept.length) return "";
    var small = smaller(row);
    return html`<p>The run kept the failing conversation${small && html`, reduced to <span class="mono">${small[0]}</span>, where it found “${small[1]}”`}. This command plays it again; it prints FIXED (exit 0), FAILED (1) or ERROR (5).</p>${copy(row.replay)}
${row.kept.map(function (file, at) {
      var text = file.text && html`<p><a download="${file.name}" href="data:text/plain;charset=utf-8,${encodeURIComponent(file.text)}">Save it</a></p>${copy(file.text)}`;
      return html`<details class="folded" ${!at && file.text.length < 4000 && "open"}><summary><b>${file.name}</b> <span class="soft">· ${file.what}</span></summary>${text || html`<p class="soft">This file is too large for a page; find it in the run's folder <code>counterexamples/</code>.</p>`}</details>`;
    })}`;
  }
  function contest(row, words, target, run) {
    var first = row.findings.length && words[row.findings[0][0]] || [];
    var late = target.late && target.late.length ? html`the run's <code>run.json</code>: this host's timer was at most ${bp.duration(target.late[1])} late` : html`the run's <code>run.json</code>, which contains the host's measured delays`;
    return html`<ul class="plain">
<li><b>The case is wrong, or reads the requirement wrongly.</b> Open an issue with brokerproof. Attach the report's folder and the output of the command above on your machine, and quote the sentence of ${first[2] || "the specification"} that you read differently. We correct wrong cases, but do not change a correct case to suit a broker.</li>
<li><b>It was this machine.</b> Bring ${late}, and a run on an idle host. A verdict on time that does not happen again is INCONCLUSIVE.</li>
<li><b>The broker was configured differently.</b> Attach its configuration file. ${target.configuration && html`This run used <code>${target.configuration}</code>.`} A target file tells brokerproof what to expect.</li>
<li><b>The broker does this, and it is known.</b> Add an entry to <code>known_deviations.toml</code> of its family, with a link to where that can be read; the verdict is KNOWN from then on, and an entry that no longer shows fails the run:</li>
</ul>${copy(row.entry)}`;
  }
  bp.page = function (row, words, others) {
    var run = facts.runs[row.run] || {}, target = facts.targets[row.run + "\u0000" + row.target] || {};
    var past = others.length > 1 && html`<dt>other runs</dt><dd>${others.map(function (other) { return other === row ? html`${badge(other.verdict)} ${other.run} ` : html`<a href="${address(other)}">${badge(other.verdict)} ${other.run}</a> `; })}</dd>`;
    row.parts.forEach(function (part) { bp.numbered(part.rows); });
    var nothing = row.verdict === "SKIP" ? "the target lacks what the case needs" : "the run recorded no trace of this case";
    return html`<h1>${row.title === row.case ? breakable(row.case) : row.title}</h1>${row.title !== row.case && html`<p class="soft mono">${breakable(row.case)}</p>`}
<p><span class="v big ${row.verdict}">${row.verdict}</span> <span class="soft">${facts.meanings[row.verdict]}</span></p>${row.detail && row.verdict !== "PASS" && html`<p>${row.detail}</p>`}
<h2>What was asked</h2>${row.doc.length ? row.doc.map(function (text) { return html`<p class="doc">${text}</p>`; }) : html`<p class="soft">The case has no description.</p>`}
<dl class="facts">${row.source && html`<dt>case</dt><dd><code>${row.source}</code></dd>`}<dt>target</dt><dd><a href="targets/${target.page}.html">${row.target}</a>${target.facts && ": " + target.facts}</dd><dt>run</dt><dd>${row.run}${run.brokerproof && ", brokerproof " + run.brokerproof}</dd><dt>took</dt><dd>${bp.duration(row.took)}${row.attempts > 1 && " in " + row.attempts + " attempts"}</dd>${past}</dl>
<h2>What was expected, and what was received</h2>
<table class="judged stack"><caption class="unseen">The requirements that the case judged</caption><thead><tr><th scope="col">Verdict</th><th scope="col">Requirement</th><th scope="col">Required</th><th scope="col">Observed</th></tr></thead><tbody>${judged(row, words)}</tbody></table>
${certainty(row, target, run)}
${bp.gauges(row)}
<h2>What crossed the wire</h2><p class="soft">${examples_in_words(row)}</p>${row.unrecorded && html`<p class="soft">${bp.quantity(row.unrecorded, "more examples")} passed during the run and were not recorded.</p>`}
${row.parts.length ? example(row.parts[0], true, row) : html`<p class="soft">Nothing was recorded: ${nothing}.</p>`}
<h2 id="try" tabindex="-1">Try it yourself</h2><p>This judges the case again with the same examples:</p>${copy(row.again)}${kept(row)}
<h2 id="contest" tabindex="-1">If you think this is wrong</h2>${contest(row, words, target, run)}
${row.parts.length > 1 && html`<section class="unprinted"><h2>Further examples</h2>${row.parts.slice(1).map(function (part) { return example(part, false, row); })}</section><p class="printed soft">${bp.quantity(row.parts.length - 1, "further examples")} and the whole log are on the page on screen.</p>`}`;
  };

  /* Every chunk is a script that calls this: a page from a disk may load scripts, and no other files. */
  window.brokerproof_cases = function (chunk, packed) {
    if (!asked || chunk !== asked.chunk) return;
    unpack(packed).then(function (data) {
      var others = data.cases.filter(function (row) { return row.case === asked.name && row.target === asked.target; }).sort(function (a, b) { return facts.order.indexOf(a.run) - facts.order.indexOf(b.run); });
      var row = others.find(function (row) { return row.run === asked.run; }) || (asked.run ? null : others[others.length - 1]);
      if (!row) { say("This report has no such case: " + asked.name + " on " + asked.target + "."); return; }
      main.innerHTML = bp.page(row, data.words, others); /* Every value in it is escaped by bp.html. */
      document.title = row.verdict + ": " + row.case + " on " + row.target;
      document.documentElement.dataset.ready = "";
      mark_wide();
      /* Tells a screen reader where it is, and moves nothing. */
      main.focus({ preventScroll: true });
    }).catch(function () { say("This browser cannot unpack the page."); });
  };
  /* A drawing that is wider than its place says so. */
  function mark_wide() { main.querySelectorAll(".figure").forEach(function (figure) { figure.classList.toggle("is-wide", figure.scrollWidth > figure.clientWidth + 1); }); }
  addEventListener("resize", mark_wide);
  main.addEventListener("toggle", mark_wide, true);
  /* The address names the case, so places on the page are gone to without it. */
  main.addEventListener("click", function (event) {
    var link = event.target.closest("a[data-section]");
    if (!link) return;
    event.preventDefault();
    var section = document.getElementById(link.dataset.section);
    section.scrollIntoView();
    section.focus({ preventScroll: true });
  });
  function show() {
    var given = new URLSearchParams(location.hash.slice(1));
    if (!given.get("case")) { say("Choose a case from the list of all cases."); return; }
    asked = { name: given.get("case"), target: given.get("target") || "", run: given.get("run") || "" };
    asked.chunk = chunk_of(asked.target, asked.name);
    delete document.documentElement.dataset.ready;
    say("Loading …");
    var script = document.createElement("script");
    script.setAttribute("src", "cases/" + String(asked.chunk).padStart(5, "0") + ".js");
    script.onerror = function () { say("This report has no such case, or its folder cases/ is missing."); };
    script.onload = function () { script.remove(); };
    document.body.append(script);
  }
  addEventListener("hashchange", function () { if (location.hash.indexOf("case=") >= 0) show(); });
  show();
})();
