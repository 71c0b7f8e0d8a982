// In place of inferno's function: names are cut by cut_name.
function update_text_for_elements(elements) {
    var char_width = known_font_width || fontsize * fontwidth, width = frames.attributes.width.value;
    var texts = [];
    for (var i = 0; i < elements.length; i++) {
        var r = find_child(elements[i], "rect").attributes;
        var room = Math.floor((parseFloat(r.width.value) * width / 100 - 3) / char_width);
        var name = find_child(elements[i], "title").textContent.replace(/ \([^(]*\)$/, "");
        texts.push([format_percent(parseFloat(r.x.value) + 100 * 3 / width), cut_name(name, room)]);
    }
    for (var i = 0; i < elements.length; i++) {
        var t = find_child(elements[i], "text");
        t.attributes.x.value = texts[i][0];
        t.textContent = texts[i][1];
    }
}
// The root is what is seen first, and what the pointer is at stands below the legend.
window.addEventListener("load", function() {
    if (inverted) {
        var line = document.getElementById("details");
        line.setAttribute("y", parseFloat(line.getAttribute("y")) + legend_height);
    } else {
        window.scrollTo(0, svg.height.baseVal.value);
    }
});
