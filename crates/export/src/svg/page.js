// Replaces inferno's function: cut_name shortens the names.
function update_text_for_elements(elements) {
    var char_width = known_font_width || fontsize * fontwidth, width = frames.attributes.width.value;
    var texts = [];
    for (var i = 0; i < elements.length; i++) {
        var r = find_child(elements[i], "rect").attributes;
        var room = Math.floor((parseFloat(r.width.value) * width / 100 - 3) / char_width);
        var name = name_of(elements[i]);
        texts.push([format_percent(parseFloat(r.x.value) + 100 * 3 / width), cut_name(name, room)]);
    }
    for (var i = 0; i < elements.length; i++) {
        var t = find_child(elements[i], "text");
        t.attributes.x.value = texts[i][0];
        t.textContent = texts[i][1];
    }
}
// Returns the name of a frame, without its amounts.
function name_of(e) { return find_child(e, "title").textContent.replace(/ \([^(]*\)$/, ""); }
// Returns a predicate for a search term: a substring, or a regular expression between slashes. Case
// matters if the term has a capital letter.
function finder_of(term) {
    var pattern = /^\/(.+)\/$/.exec(term);
    if (pattern) {
        var made = new RegExp(pattern[1], /\p{Lu}/u.test(pattern[1].replace(/\\./g, "")) ? "" : "i");
        return function(name) { return made.test(name); };
    }
    var lower = /\p{Lu}/u.test(term) ? function(text) { return text; } : function(text) { return text.toLowerCase(); };
    // Names in boxes may be shortened: `..map<\u2026>::find`.
    var text = lower(term.replace(/^\.\.(?=.)/, "").replace(/(.)\.\.$/, "$1"));
    return function(name) {
        return lower(name).includes(text) || text.includes("\u2026") && lower(elide_arguments(Array.from(name)).join("")).includes(text);
    };
}
// Returns the weight between two positions in the graph.
function weight_between(x, end) { return end - x; }
// Replaces inferno's functions: the term is text, matches are white on dark, and their share is
// shown beside the root.
function search_prompt() {
    if (searching) return end_search();
    var term = prompt("Text to search names for, or a regular expression between slashes: /^ext4_/", "");
    if (term) search(term);
}
function end_search() {
    clear_found();
    searching = 0;
    searchbtn.classList.remove("show");
    searchbtn.firstChild.nodeValue = "Search";
    matchedtxt.classList.add("hide");
    matchedtxt.firstChild.nodeValue = "";
    var params = get_params();
    delete params.s;
    history.replaceState(null, null, parse_params(params));
}
function clear_found() {
    for (var i = 0; i < frames.children.length; i++) {
        if (!frames.children[i].classList.contains("found")) continue;
        frames.children[i].classList.remove("found");
        orig_load(find_child(frames.children[i], "rect"), "fill");
    }
}
function search(term) {
    var finds, found = [], first = Infinity, last = 0, outermost = inverted ? Infinity : 0;
    clear_found();
    try {
        finds = finder_of(term);
    } catch (error) {
        return show_found(term, term + " is no regular expression");
    }
    for (var i = 0; i < frames.children.length; i++) {
        var y = parseFloat(find_child(frames.children[i], "rect").attributes.y.value);
        outermost = inverted ? Math.min(outermost, y) : Math.max(outermost, y);
    }
    for (var i = 0; i < frames.children.length; i++) {
        var e = frames.children[i];
        // Skips hidden frames and ancestors of the zoomed frame.
        if (e.classList.contains("hide") || e.classList.contains("parent")) continue;
        var rect = find_child(e, "rect"), a = rect.attributes, x = parseInt(a["fg:x"].value), end = x + parseInt(a["fg:w"].value);
        first = Math.min(first, x);
        last = Math.max(last, end);
        // The root is no function.
        if (parseFloat(a.y.value) == outermost || !finds(name_of(e))) continue;
        orig_save(rect, "fill");
        rect.attributes.fill.value = searchcolor;
        e.classList.add("found");
        found.push([x, end]);
    }
    // Nested matches count once.
    found.sort(function(a, b) { return a[0] - b[0] || b[1] - a[1]; });
    var sum = 0, reached = 0;
    found.forEach(function(box) {
        if (box[0] < reached) return;
        sum += weight_between(box[0], box[1]);
        reached = box[1];
    });
    var share = 100 * sum / weight_between(first, last);
    show_found(term, found.length ? "Matched: " + (share == 100 ? share : share.toFixed(1)) + "%" : "No match");
}
function show_found(term, text) {
    searching = 1;
    searchbtn.classList.add("show");
    searchbtn.firstChild.nodeValue = "Reset Search";
    matchedtxt.classList.remove("hide");
    matchedtxt.firstChild.nodeValue = text;
    var params = get_params();
    params.s = term;
    history.replaceState(null, null, parse_params(params));
}
// Scrolls to the root, and moves the details line below the legend.
window.addEventListener("load", function() {
    if (inverted) {
        var line = document.getElementById("details");
        line.setAttribute("y", parseFloat(line.getAttribute("y")) + legend_height);
        document.getElementById("matched").setAttribute("y", line.getAttribute("y"));
    } else {
        window.scrollTo(0, svg.height.baseVal.value);
    }
});
