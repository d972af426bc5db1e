(function () {
  "use strict";
  var main = document.getElementById("main"), each = Number(main.dataset.each), first = Number(main.dataset.first), wanted = -1;
  function say(text) { main.textContent = ""; var said = document.createElement("p"); said.setAttribute("role", "status"); said.textContent = text; main.append(said); }
  function unpack(text) {
    var letters = atob(text), bytes = new Uint8Array(letters.length);
    for (var at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  }
  /* Every chunk is a script that calls this: a page from a disk may load scripts, and no other files. */
  window.brokerproof_pages = function (chunk, packed) {
    if (chunk !== Math.floor((wanted - first) / each)) return;
    unpack(packed).then(function (told) {
      /* Every different line once, and for each page the numbers of its lines. */
      var numbers = told[1][(wanted - first) % each], html = (numbers || []).map(function (line) { return told[0][line]; }).join("\n");
      if (!html) { say("There is no page " + wanted + "."); return; }
      main.innerHTML = html; /* Made and escaped when the report was written. */
      document.title = main.querySelector("h1").textContent + " · brokerproof";
      main.querySelectorAll("button.copy").forEach(function (button) { button.hidden = false; });
      document.documentElement.dataset.ready = "";
      main.focus();
    }).catch(function () { say("This browser cannot unpack the page."); });
  };
  function show() {
    wanted = parseInt(location.hash.slice(1), 10);
    if (!(wanted >= first)) { say("Choose a case from the list of all cases."); return; }
    say("Loading …");
    var script = document.createElement("script"), chunk = Math.floor((wanted - first) / each);
    script.setAttribute("src", "more/" + String(chunk).padStart(5, "0") + ".js");
    script.onerror = function () { say("There is no page " + wanted + "."); };
    script.onload = function () { script.remove(); };
    document.body.append(script);
  }
  addEventListener("hashchange", function () { if (/^#\d+$/.test(location.hash)) show(); });
  show();
})();
