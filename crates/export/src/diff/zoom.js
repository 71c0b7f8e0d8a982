// Replaces inferno's function: only frames of the same panel are ancestors, the other panel stays.
function zoom(node) {
    var panel = node.getAttribute("class").split(" ")[0];
    var attr = find_child(node, "rect").attributes;
    var width = parseInt(attr["fg:w"].value), from = parseInt(attr["fg:x"].value);
    var to = from + width, top = parseFloat(attr.y.value), changed = [];
    unzoombtn.classList.remove("hide");
    for (var i = 0; i < frames.children.length; i++) {
        var e = frames.children[i];
        if (!e.classList.contains(panel)) continue;
        var a = find_child(e, "rect").attributes;
        var x = parseInt(a["fg:x"].value), w = parseInt(a["fg:w"].value);
        if (parseFloat(a.y.value) < top) {
            if (x <= from && x + w >= to) {
                e.classList.add("parent");
                zoom_parent(e);
                changed.push(e);
            } else {
                e.classList.add("hide");
            }
        } else if (x < from || x >= to) {
            e.classList.add("hide");
        } else {
            zoom_child(e, from, width);
            changed.push(e);
        }
    }
    update_text_for_elements(changed);
}
