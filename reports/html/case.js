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
  function source(words) {
    var place = (words[2] || "") + (words[3] ? ", " + words[3] : "");
    return html`${words[1] || "not in the catalogue"}${words[2] && html` · ${words[4] ? html`<a href="${words[4]}" rel="external">${place}</a>` : place}`}`;
  }
  function address(row) {
    var link = new URLSearchParams({ "case": row.case, target: row.target });
    if (facts.several) link.set("run", row.run);
    return "#" + link;
  }

  function judged(row, words) {
    if (!row.findings.length) return html`<tr><td colspan="4" class="soft">The case judged no requirement.</td></tr>`;
    return row.findings.map(function (finding) {
      var of = words[finding[0]] || [];
      var id = of[5] ? html`<a class="mono" href="requirements/${of[5]}.html">${finding[0]}</a>` : html`<span class="mono">${finding[0]}</span>`;
      var reason = finding[5] && html`<div class="soft">Known deviation: ${finding[5]} ${finding[6] && html`<a href="${finding[6]}" rel="external">${finding[6]}</a>`}</div>`;
      return html`<tr><td>${badge(finding[1])}</td><th scope="row">${id}<div class="level">${source(of)}</div></th><td class="full">${of[0]}${of[6] && html`<div class="soft">“${of[6]}”</div>`}</td><td class="full">${finding[3] || finding[2]}${finding[4] && html`<div class="soft">Not certain: ${finding[4]}.</div>`}${reason}</td></tr>`;
    });
  }
  bp.gauges = function (row) {
    if (!row.gauges.length) return "";
    var rows = row.gauges.map(function (gauge) {
      var label = gauge[0], value = gauge[1], unit = gauge[2], low = gauge[3], high = gauge[4], margin = gauge[5], rooms = [];
      if (low !== null) rooms.push(value - low);
      if (high !== null) rooms.push(high - value);
      var room = rooms.length ? Math.min.apply(null, rooms) : null, inside = room === null || room >= 0;
      var distance = room === null ? "" : room === 0 ? "on the bound" : bp.quantity(Math.abs(room), unit) + (room > 0 ? " inside" : " outside");
      return html`<tr><th scope="row">${label}</th><td class="num">${bp.quantity(value, unit)}</td><td>${bp.between(low, high, unit)}</td><td>${bp.gauge(Number(value), low, high, margin)}</td><td>${margin ? "± " + bp.quantity(margin, unit) : ""}</td><td>${inside ? distance : html`<b>${distance}</b>${room >= -margin && ", within the margin"}`}</td></tr>`;
    });
    return html`<h3>Measured against expected${row.parts.length && row.parts[0].part ? ", where it was nearest to a bound" : ""}</h3>
<div class="scroll"><table class="stack gauges"><thead><tr><th scope="col">Quantity</th><th scope="col" class="num">Measured</th><th scope="col">Expected</th><td></td><th scope="col">Margin</th><th scope="col">From the nearest bound</th></tr></thead><tbody>${rows}</tbody></table></div>`;
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
  function example(part, first) {
    var rows = bp.numbered(part.rows), start = rows.find(function (row) { return row.kind === "ExampleStarted"; }), marks = bp.marks(rows), lines = bp.lines(rows), sequence = bp.sequence(rows, marks), endings = bp.endings(rows);
    var title = start && html`<h3>Example ${start.example}${start.detail && html` <span class="soft mono">${start.detail}</span>`}</h3>`;
    var of_example = start ? " of example " + start.example : "";
    var axis = marks.last > marks.first ? html`<div class="figure" tabindex="0" role="region" aria-label="Time axis${of_example}, to scale">${bp.axis(marks)}</div>
<div class="legend" aria-hidden="true"><span class="is-sent"><i class="k"></i>sent, above the line</span><span class="is-received"><i class="k"></i>received, below</span><span class="is-band"><i class="k"></i>expected interval</span><span class="soft">to scale; short ticks are heartbeats, dashed ones loose bytes, ✕ is the close of a connection</span></div>`
      : html`<p class="soft">All of it has one instant of virtual time, so there is no time axis.</p>`;
    var left_out = [[marks.lanes_left_out, "connections"], [marks.bands_left_out, "intervals"]].map(function (pair) { return pair[0] ? html`<p class="soft">${pair[0]} further ${pair[1]} are not drawn.</p>` : ""; });
    var plots = part.curves.length > 0 && html`<div class="plots">${part.curves.map(function (curve) { return html`<figure class="plot">${bp.plot(curve)}<figcaption>${bp.curve_in_words(curve)}</figcaption></figure>`; })}</div>`;
    return html`${title}${axis}${left_out}${plots}${sequence && html`<details ${first && lines.length <= 90 && "open"}><summary>The conversation, step by step <span class="soft">· time runs down, silences are shortened; dashed lines are deadlines and bounds</span></summary><div class="figure" tabindex="0" role="region" aria-label="Sequence diagram${of_example}">${sequence}</div></details>`}
<details ${first && lines.length <= 60 && "open"}><summary>The log <span class="soft">· ${lines.length} lines of ${part.events} events</span></summary>
<table class="log"><thead><tr><th scope="col" class="num">Seconds</th><th scope="col">Conn</th><th scope="col"><span class="unseen">Way</span></th><th scope="col">What</th></tr></thead><tbody>${bp.log(lines)}</tbody></table></details>
<h3>How it closed</h3><ul class="plain">${endings.length ? endings.map(function (text) { return html`<li>${text}</li>`; }) : html`<li>No connection was opened.</li>`}</ul>`;
  }
  function kept(row) {
    if (!row.kept || !row.kept.length) return "";
    return html`<p>The run kept what failed. This plays it again: FIXED (exit 0), FAILED (1) or ERROR (5).</p>${copy(row.replay)}
${row.kept.map(function (file, at) {
      var text = file.text && html`<p><a download="${file.name}" href="data:text/plain;charset=utf-8,${encodeURIComponent(file.text)}">Save it</a></p>${copy(file.text)}`;
      return html`<details ${!at && "open"}><summary><b>${file.name}</b> <span class="soft">· ${file.what}</span></summary>${text || html`<p class="soft">It is too large for a page; it is in the run's folder <code>counterexamples/</code>.</p>`}</details>`;
    })}`;
  }
  function contest(row, words, target, run) {
    var first = row.findings.length && words[row.findings[0][0]] || [];
    var late = run.canary ? html`the run's <code>run.json</code>: its canary timer was late by ${run.canary} at the 99th percentile` : html`the run's <code>run.json</code>, which says how late the host itself was`;
    return html`<ul class="plain">
<li><b>The case is wrong, or reads the requirement wrongly.</b> Open an issue with brokerproof. Bring the report's folder, what the command above prints on your machine, and the sentence of ${first[2] || "the specification"} that you read otherwise, with its place. If the case is wrong, the case is mended; a broker's deviation never bends it.</li>
<li><b>It was this machine.</b> Bring ${late}, and a run on an idle host. A verdict on time that does not happen again is INCONCLUSIVE.</li>
<li><b>The broker was set up otherwise.</b> Bring its configuration file. ${target.configuration && html`This run had <code>${target.configuration}</code>.`} A target file or another profile tells brokerproof what to expect.</li>
<li><b>The broker does this, and it is known.</b> Add an entry to <code>known_deviations.toml</code> of its family, with a link to where that can be read; the verdict is KNOWN from then on, and an entry that no longer shows fails the run:</li>
</ul>${copy(row.entry)}`;
  }
  bp.page = function (row, words, others) {
    var run = facts.runs[row.run] || {}, target = facts.targets[row.run + "\u0000" + row.target] || {};
    var past = others.length > 1 && html`<dt>other runs</dt><dd>${others.map(function (other) { return other === row ? html`${badge(other.verdict)} ${other.run} ` : html`<a href="${address(other)}">${badge(other.verdict)} ${other.run}</a> `; })}</dd>`;
    var nothing = row.verdict === "SKIP" ? "the target lacks what the case needs" : "the run kept no trace of this case";
    return html`<h1>${breakable(row.case)}</h1>
<p><span class="v big ${row.verdict}">${row.verdict}</span> <span class="soft">${facts.meanings[row.verdict]}</span></p>${row.detail && row.verdict !== "PASS" && html`<p>${row.detail}</p>`}
<h2>What was asked</h2>${row.doc.length ? row.doc.map(function (text) { return html`<p class="doc">${text}</p>`; }) : html`<p class="soft">The case has no description.</p>`}
<dl class="facts">${row.source && html`<dt>case</dt><dd><code>${row.source}</code></dd>`}<dt>target</dt><dd><a href="targets/${target.page}.html">${row.target}</a>${target.facts && ": " + target.facts}</dd><dt>run</dt><dd>${row.run}${run.brokerproof && ", brokerproof " + run.brokerproof}</dd><dt>took</dt><dd>${bp.duration(row.took)}${row.attempts > 1 && " in " + row.attempts + " attempts"}</dd>${past}</dl>
<h2>What was expected, and what was received</h2>
<table class="judged stack"><caption class="unseen">The requirements that the case judged</caption><thead><tr><th scope="col">Verdict</th><th scope="col">Requirement</th><th scope="col">It says</th><th scope="col">Received</th></tr></thead><tbody>${judged(row, words)}</tbody></table>
${bp.gauges(row)}
<h2>What crossed the wire</h2>${row.examples > row.parts.length && html`<p class="soft">${row.parts.length} of ${row.examples} examples: the failing ones first, then those that were nearest to a bound.</p>`}${row.unrecorded && html`<p class="soft">${row.unrecorded} more ${row.unrecorded > 1 ? "examples passed" : "example passed"} and added nothing new: judged when run, and not recorded.</p>`}
${row.parts.length ? row.parts.map(function (part, at) { return example(part, !at); }) : html`<p class="soft">Nothing was recorded: ${nothing}.</p>`}
<h2>Try it yourself</h2><p>This judges the case again with the same examples:</p>${copy(row.again)}${kept(row)}
<h2>If you think this is wrong</h2>${contest(row, words, target, run)}`;
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
      main.focus();
    }).catch(function () { say("This browser cannot unpack the page."); });
  };
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
