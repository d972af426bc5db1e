(function () {
  "use strict";
  var PAGE = 100, CHOICES = ["area", "impact", "suite", "level", "source", "target"], SORTS = ["verdict", "case", "target", "took"];
  var packed = document.getElementById("listing");
  var box = document.getElementById("text"), said = document.getElementById("status"), table = document.getElementById("rows");
  var previous = document.getElementById("previous"), next = document.getElementById("next"), where = document.getElementById("where");
  var matrix = document.getElementById("matrix"), differ = document.getElementById("differ"), data = null, state = read(), found = [], lines = null, narrowed = "", talk = 0, due = 0, telling = 0;
  var columns = [].map.call((matrix.querySelector("thead") || matrix).querySelectorAll("th.cell"), function (head) { return head.dataset.target; });

  document.documentElement.classList.add("lazy");
  /* The state is the part of the address behind #, as name=value&…; a fragment without = is a place on the page. */
  function read() {
    var hash = location.hash.slice(1), given = new URLSearchParams(hash.indexOf("=") >= 0 ? hash : ""), state = {};
    state.verdict = new Set((given.get("verdict") || "").split(",").filter(Boolean));
    CHOICES.forEach(function (name) { state[name] = given.get(name) || ""; });
    state.text = given.get("text") || "";
    state.differ = given.get("differ") === "1";
    state.sort = given.get("sort") || "verdict";
    state.page = Math.max(parseInt(given.get("page") || "1", 10) || 1, 1);
    return state;
  }
  function write() {
    var told = new URLSearchParams();
    if (state.verdict.size) told.set("verdict", Array.from(state.verdict).join(","));
    CHOICES.concat("text").forEach(function (name) { if (state[name]) told.set(name, state[name]); });
    if (state.differ) told.set("differ", "1");
    if (state.sort !== "verdict") told.set("sort", state.sort);
    if (state.page > 1) told.set("page", state.page);
    var hash = told.toString().replace(/%2C/g, ",");
    history.replaceState(null, "", location.href.split("#")[0] + (hash ? "#" + hash : ""));
  }
  function unpack(text) {
    var letters = atob(text.trim()), bytes = new Uint8Array(letters.length);
    for (var at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  }

  function words() { return state.text.toLowerCase().split(/\s+/).filter(Boolean); }
  /* A word has no space in it, so it is within one of the parts of a result: each different part is looked at once. */
  function has(parts, word) {
    var hits = new Uint8Array(parts.length);
    for (var at = 0; at < parts.length; at++) if (parts[at].indexOf(word) >= 0) hits[at] = 1;
    return hits;
  }
  function holding(word) {
    var low = data.low, verdict = has(low.verdicts, word), name = has(low.names, word), detail = has(low.details, word), column = has(low.columns, word), id = has(low.ids, word), set = new Uint8Array(data.sets.length);
    for (var at = 0; at < set.length; at++) for (var each = 0; each < data.sets[at].length; each++) if (id[data.sets[at][each]]) { set[at] = 1; break; }
    return function (at) { return name[data.name[at]] || column[data.column[at]] || set[data.set[at]] || detail[data.detail[at]] || verdict[data.verdict[at]]; };
  }
  function alphabet() {
    if (!data.order) {
      data.order = new Array(data.names.length);
      data.names.map(function (_, at) { return at; }).sort(function (a, b) { return data.names[a] < data.names[b] ? -1 : 1; }).forEach(function (at, place) { data.order[at] = place; });
    }
    return data.order;
  }
  function select() {
    var verdicts = new Set(data.verdicts.map(function (_, at) { return at; }).filter(function (at) { return !state.verdict.size || state.verdict.has(data.verdicts[at]); }));
    var columns = new Set(data.columns.map(function (_, at) { return at; }).filter(function (at) { return !state.target || data.columns[at].target === state.target; }));
    var suites = data.names.map(function (each) { return !state.suite || each.split(".")[0] === state.suite; });
    var impacts = data.impacts.map(function (each) { return !state.impact || each === state.impact; });
    var sets = data.sets.map(function (each) { return (!state.level && !state.source && !state.area) || each.some(function (id) {
      return (!state.level || data.requirements[id][1] === state.level) && (!state.source || data.requirements[id][2] === state.source)
      && (!state.area || data.areas[data.requirements[id][4]] === state.area); }); });
    var needed = words().map(holding);
    found = [];
    for (var at = 0; at < data.verdict.length; at++) {
      if (verdicts.has(data.verdict[at]) && columns.has(data.column[at]) && suites[data.name[at]] && impacts[data.impact[at]] && sets[data.set[at]]
          && needed.every(function (holds) { return holds(at); })) found.push(at);
    }
    var down = state.sort[0] === "-", by = state.sort.replace("-", "");
    var key = { "case": function (at) { return alphabet()[data.name[at]]; }, target: function (at) { return data.column[at]; }, took: function (at) { return data.took[at]; }, verdict: function (at) { return data.verdict[at]; } }[by];
    if (key && (by !== "verdict" || down)) found.sort(function (a, b) { return (down ? -1 : 1) * (key(a) - key(b)) || a - b; });
  }
  function add(parent, tag, name, text) {
    var made = document.createElement(tag);
    if (name) made.className = name;
    if (text) made.textContent = text;
    parent.append(made);
    return made;
  }
  function row(at) {
    var made = document.createElement("tr"), verdict = data.verdicts[data.verdict[at]], column = data.columns[data.column[at]];
    add(add(made, "td"), "span", "v " + verdict, verdict).title = verdict + ": " + data.meanings[verdict];
    var name = add(made, "th", "case");
    name.scope = "row";
    var link = add(name, "a");
    var place = new URLSearchParams({ "case": data.names[data.name[at]], target: column.target });
    if (data.several) place.set("run", column.run);
    link.href = "case.html#" + place;
    function broken(into, text) { text.split(/([_.])/).forEach(function (part) { into.append(part); if (part === "_" || part === ".") into.append(document.createElement("wbr")); }); }
    var id = data.names[data.name[at]], title = data.titles[data.name[at]], harm = data.impacts[data.impact[at]];
    if (title === id) broken(link, id); else { link.textContent = title; broken(add(name, "div", "reqs mono"), id); }
    if (harm) add(name, "div", "reqs", "impact " + harm);
    if (verdict !== "PASS" && data.details[data.detail[at]]) add(name, "div", "detail", data.details[data.detail[at]]);
    var target = add(made, "td", "target", column.target);
    if (data.several) add(target, "div", "reqs", column.run);
    var cited = add(made, "td", "reqs mono"), set = data.sets[data.set[at]];
    set.slice(0, 6).forEach(function (id) { var each = add(cited, "a", "", data.requirements[id][0]); each.title = data.requirements[id][5]; if (data.requirements[id][3]) each.href = "requirements/" + data.requirements[id][3] + ".html"; cited.append(" "); });
    if (set.length > 6) cited.append("…");
    var took = add(made, "td", "num", data.took[at] < 1000 ? data.took[at] + " ms" : +(data.took[at] / 1000).toFixed(3) + " s");
    if (data.attempts[at] > 1) add(took, "div", "reqs", data.attempts[at] + " attempts");
    return made;
  }
  function list() {
    var pages = Math.max(Math.ceil(found.length / PAGE), 1);
    state.page = Math.min(state.page, pages);
    var start = (state.page - 1) * PAGE, shown = found.slice(start, start + PAGE), body = document.createElement("tbody");
    shown.forEach(function (at) { body.append(row(at)); });
    if (!shown.length) { var none = add(add(body, "tr"), "td", "soft", "No result fits these filters."); none.colSpan = 5; }
    table.tBodies[0].replaceWith(body);
    table.querySelectorAll("th[data-sort]").forEach(function (head) {
      var by = state.sort.replace("-", "") === head.dataset.sort;
      if (by) head.setAttribute("aria-sort", state.sort[0] === "-" ? "descending" : "ascending"); else head.removeAttribute("aria-sort");
    });
    previous.disabled = state.page <= 1;
    next.disabled = state.page >= pages;
    where.textContent = found.length ? "Results " + (start + 1) + " to " + (start + shown.length) + " of " + found.length : "";
  }
  /* The matrix, read once: what is asked of its rows is asked of these. */
  function rows_of_matrix() {
    if (lines) return lines;
    lines = [];
    [].forEach.call(matrix.querySelectorAll("section"), function (document_) {
      [].forEach.call(document_.querySelectorAll("tbody"), function (group) {
        [].forEach.call(group.rows, function (row) {
          if (!row.dataset.id) return;
          var cells = [].slice.call(row.querySelectorAll("td.cell"));
          lines.push({ row: row, group: group, of: document_, source: document_.dataset.source, level: row.dataset.level, area: data.area[row.dataset.id] || "", impact: row.dataset.impact, suites: data.suites[row.dataset.id] || [],
            cells: cells, verdicts: cells.map(function (cell) { return cell.dataset.v || ""; }), text: row.textContent.toLowerCase(), hidden: false });
        });
      });
    });
    return lines;
  }
  /* A document out of sight is laid out when there is time for it: only then a screen reader announces it. */
  function later(work) { if (window.requestIdleCallback) requestIdleCallback(work, { timeout: 3000 }); else setTimeout(work, 50); }
  function tell(turn) {
    var untold = turn === telling && matrix.querySelector("section:not(.told)");
    if (untold) { untold.classList.add("told"); later(function () { tell(turn); }); }
  }
  function put_off() {
    matrix.querySelectorAll("section.told").forEach(function (each) { each.classList.remove("told"); });
    clearTimeout(due);
    telling += 1;
    due = setTimeout(tell, 1000, telling);
  }
  function hide(what, off) { if (what.hidden !== off) what.hidden = off; }
  function narrow() {
    var needed = words(), shown = 0, turned = [], groups = new Map(), documents = new Map(), off = columns.map(function (name) { return !!state.target && name !== state.target; });
    var moved = off.join() !== narrowed;
    narrowed = off.join();
    if (moved) matrix.querySelectorAll("th.cell, col.cell").forEach(function (each) { hide(each, !!state.target && each.dataset.target !== state.target); });
    rows_of_matrix().forEach(function (line) {
      if (moved) line.cells.forEach(function (cell, at) { hide(cell, off[at]); });
      var verdicts = line.verdicts.filter(function (verdict, at) { return verdict && !off[at]; });
      var hit = (!state.differ || new Set(line.verdicts).size > 1) && (!state.level || line.level === state.level) && (!state.source || line.source === state.source) && (!state.area || line.area === state.area) && (!state.impact || line.impact === state.impact)
        && (!state.suite || line.suites.indexOf(state.suite) >= 0)
        && (state.verdict.size ? verdicts.some(function (each) { return state.verdict.has(each); }) : !state.target || verdicts.length > 0)
        && needed.every(function (word) { return line.text.indexOf(word) >= 0; });
      if (line.hidden === hit) { line.hidden = !hit; turned.push(line); }
      groups.set(line.group, groups.get(line.group) || hit);
      documents.set(line.of, documents.get(line.of) || hit);
      shown += hit;
    });
    if (moved || turned.length > 50 || !telling) put_off();
    turned.forEach(function (line) { line.row.hidden = line.hidden; });
    [groups, documents].forEach(function (parts) { parts.forEach(function (any, part) { hide(part, !any); }); });
    return shown + " of " + lines.length + " requirements";
  }
  function apply(quiet) {
    select();
    list();
    var told = found.length + " of " + data.verdict.length + " results, " + narrow();
    /* Read out once somebody has stopped typing. */
    clearTimeout(talk);
    talk = setTimeout(function () { said.textContent = told; }, quiet ? 0 : 250);
    if (!quiet) write();
  }
  function reflect() {
    box.value = state.text;
    if (differ) differ.checked = state.differ;
    CHOICES.forEach(function (name) { var choice = document.getElementById(name); if (choice) choice.value = state[name]; });
    document.querySelectorAll("button[data-verdict]").forEach(function (button) { button.setAttribute("aria-pressed", String(state.verdict.has(button.dataset.verdict))); });
  }
  function changed() { state.page = 1; apply(false); }

  box.addEventListener("input", function () { state.text = box.value.trim(); changed(); });
  CHOICES.forEach(function (name) {
    var choice = document.getElementById(name);
    if (choice) choice.addEventListener("change", function () { state[name] = choice.value; changed(); });
  });
  if (differ) differ.addEventListener("change", function () { state.differ = differ.checked; changed(); });
  document.querySelectorAll("button[data-verdict]").forEach(function (button) {
    button.addEventListener("click", function () {
      if (!state.verdict.delete(button.dataset.verdict)) state.verdict.add(button.dataset.verdict);
      reflect(); changed();
    });
  });
  document.getElementById("reset").addEventListener("click", function () { history.replaceState(null, "", location.href.split("#")[0]); state = read(); reflect(); apply(true); box.focus(); });
  table.querySelectorAll("th[data-sort] button").forEach(function (button) {
    button.addEventListener("click", function () {
      var by = button.parentElement.dataset.sort;
      state.sort = state.sort === by ? "-" + by : by;
      changed();
    });
  });
  function turn(by) { state.page += by; apply(false); table.scrollIntoView(); table.focus({ preventScroll: true }); }
  previous.addEventListener("click", function () { turn(-1); });
  next.addEventListener("click", function () { turn(1); });
  /* Long sections are folded on a phone; a link to one unfolds it. */
  function unfold(place) {
    var fold = place && (place.closest("details") || (place.nextElementSibling && place.nextElementSibling.matches("details.fold") && place.nextElementSibling));
    if (fold) fold.open = true;
  }
  /* Brings what the address names into sight: a place on the page, or the list that it filters. */
  function go() {
    var hash = location.hash.slice(1);
    if (!hash) return;
    var place = document.getElementById(hash.indexOf("=") < 0 ? hash : state.differ ? "requirements" : "cases");
    unfold(place);
    if (place) place.scrollIntoView();
    if (place && place.id === "cases") table.focus({ preventScroll: true });
  }
  addEventListener("hashchange", function () {
    if (data && (location.hash.length < 2 || location.hash.indexOf("=") >= 0)) { state = read(); reflect(); apply(true); }
    go();
  });
  if (matchMedia("(max-width: 640px)").matches) document.querySelectorAll("details.fold").forEach(function (each) { each.open = false; });

  reflect();
  unpack(packed.textContent).then(function (told) {
    data = told;
    function low(texts) { return texts.map(function (each) { return each.toLowerCase(); }); }
    data.low = { verdicts: low(data.verdicts), names: low(data.names.map(function (each, at) { return each + " " + data.titles[at]; })), details: low(data.details), ids: low(data.requirements.map(function (each) { return each[0]; })),
      columns: low(data.columns.map(function (each) { return each.target + " " + each.run; })) };
    data.suites = {};
    data.area = {};
    data.requirements.forEach(function (each) { data.area[each[0]] = data.areas[each[4]]; });
    var seen = {};
    for (var at = 0; at < data.verdict.length; at++) {
      var suite = data.names[data.name[at]].split(".")[0], pair = suite + " " + data.set[at];
      if (seen[pair]) continue;
      seen[pair] = true;
      data.sets[data.set[at]].forEach(function (id) { var of = data.suites[data.requirements[id][0]] = data.suites[data.requirements[id][0]] || []; if (of.indexOf(suite) < 0) of.push(suite); });
    }
    document.querySelectorAll(".scripted").forEach(function (each) { each.hidden = false; });
    document.querySelectorAll(".unscripted").forEach(function (each) { each.hidden = true; });
    apply(true);
    document.documentElement.dataset.ready = "";
    go();
  }).catch(function () { said.textContent = "This browser cannot unpack the whole list; what is shown is its beginning."; });
})();
