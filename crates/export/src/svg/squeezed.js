// Shares of what a search finds, where the block of idle threads is drawn narrower than it weighs: inferno takes the width.
function weight_before(x) {
    var inside = Math.max(0, Math.min(squeezed[2], x - squeezed[0]));
    return x + inside * (squeezed[1] / squeezed[2] - 1);
}
function weight_between(x, end) { return weight_before(end) - weight_before(x); }
var search_by_width = search;
search = function(term) {
    search_by_width(term);
    if (!searching) return;
    var found = [], first = Infinity, last = 0;
    for (var i = 0; i < frames.children.length; i++) {
        var e = frames.children[i];
        if (e.classList.contains("hide") || e.classList.contains("parent")) continue;
        var a = find_child(e, "rect").attributes, x = parseInt(a["fg:x"].value), end = x + parseInt(a["fg:w"].value);
        first = Math.min(first, x);
        last = Math.max(last, end);
        if (a.fill.value == searchcolor) found.push([x, end]);
    }
    found.sort(function(a, b) { return a[0] - b[0] || b[1] - a[1]; });
    var sum = 0, reached = 0;
    found.forEach(function(box) {
        if (box[0] < reached) return;
        sum += weight_between(box[0], box[1]);
        reached = box[1];
    });
    var share = 100 * sum / weight_between(first, last);
    matchedtxt.firstChild.nodeValue = "Matched: " + (share == 100 ? share : share.toFixed(1)) + "%";
};
