// Shortens names to the width of their boxes, like box_text.rs.
"use strict";
function is_separator(c) { return ":./ ~*^+".includes(c); }
function is_word(c) { return /^[A-Za-z0-9_]$/.test(c); }
function cut_name(text, fit) {
    var name = Array.from(text);
    if (name.length <= fit) return text;
    if (fit < 3) return "";
    if (!starts(name, 0, "py::") && place_of_text(text) < 0) name = elide_arguments(name);
    if (name.length <= fit) return name.join("");
    var room = fit - 2, own = own_name(name), start = own[0], end = own[1];
    if (end <= room) return name.slice(0, room).join("") + "..";
    if (end - start > room) return name.slice(start, start + room).join("") + "..";
    var from = end - room;
    while (from < start && !(is_separator(name[from - 1]) && !is_separator(name[from]))) from++;
    return ".." + name.slice(from, end).join("");
}
var operators = ["<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "<", ">"].map(function(sign) { return "operator" + sign; });
function is_of_word(c) { return /^[\p{Alphabetic}\p{N}_$}]$/u.test(c); }
function starts(name, at, text) { return name.slice(at, at + text.length).join("") == text; }
function elide_arguments(name) {
    var out = [], open = [], before = "", at = 0;
    while (at < name.length) {
        var hidden = open.length > 0 && open[open.length - 1];
        var operator = is_of_word(before) ? undefined : operators.find(function(text) { return starts(name, at, text); });
        var taken = operator ? operator.length : "-=".includes(name[at]) && name[at + 1] == ">" ? 2 : 1;
        var token = name.slice(at, at + taken).join("");
        if (token == "<") {
            var is_list = (is_of_word(before) || before == ":" || before == ">") && !starts(name, at + 1, "impl ");
            if (!hidden) out.push("<");
            if (!hidden && is_list) out.push("\u2026");
            open.push(hidden || is_list);
        } else if (token == ">") {
            if (open.length == 0) return name;
            open.pop();
            if (!open.length || !open[open.length - 1]) out.push(">");
        } else if (!hidden) out.push.apply(out, name.slice(at, at + taken));
        before = name[at + taken - 1];
        at += taken;
    }
    return open.length == 0 ? out : name;
}
function is_number(text) { return /^[0-9]+$/.test(text) && Number(text) <= 4294967295; }
function without_number(text) {
    var at = text.lastIndexOf(":");
    return at >= 0 && is_number(text.slice(at + 1)) ? text.slice(0, at) : text;
}
function place_of_text(text) {
    if (!text.endsWith(")")) return -1;
    var at = text.slice(0, -1).lastIndexOf(" (");
    if (at < 0) return -1;
    var place = text.slice(at + 2, -1), file = without_number(without_number(place));
    var is_it = /\.(pyw?|pyx|[mc]?js|m?ts|[tj]sx)$/.test(file) || file.length < place.length && /\.(java|kt|scala)$/.test(file) || file.startsWith("node:") || file.startsWith("<") && file.endsWith(">");
    return is_it && at > 0 ? at : -1;
}
function own_name(name) {
    var end = name.length, file = -1, text = name.join(""), place = place_of_text(text);
    if (place >= 0) {
        place = Array.from(text.slice(0, place)).length;
        var before = name[place - 1];
        return !is_word(before) && before != "$" && before != ">" ? [place + 2, end - 1] : [last_part(name, place), place];
    }
    for (var at = 1; at < end && file < 0; at++)
        if (name[at] == " " && ["/", "file:", "node:"].some(function(text) { return starts(name, at + 1, text); })) file = at;
    if (file >= 0) {
        end = file;
        if (!is_word(name[file - 1]) && name[file - 1] != "$" && name[file - 1] != ">") {
            var slash = name.lastIndexOf("/");
            return [slash < 0 ? file + 1 : slash + 1, name.length];
        }
    } else if (starts(name, 0, "py::")) {
        var colon = name.indexOf(":", 5);
        if (colon >= 0) end = colon;
    }
    var sign = name.slice(0, end).indexOf("@");
    if (sign > 0) end = sign;
    for (;;) {
        var dot = name.slice(0, end).lastIndexOf(".");
        if (dot <= 0 || !/^([0-9]*|isra|part|constprop|cold|lto_priv|llvm|clone)$/.test(name.slice(dot + 1, end).join(""))) break;
        end = dot;
    }
    var start = last_part(name, end);
    while (name[start] == "{" && start >= 2 && name[start - 1] == ":") {
        var before = last_part(name, start - 2);
        if (before + 2 >= start) break;
        start = before;
    }
    return [start, end];
}
function last_part(name, end) {
    var depth = 0, start = 0;
    for (var at = 0; at < end; at++) {
        var c = name[at];
        if ("<([{".includes(c)) depth++;
        else if (c == ">" && at > 0 && name[at - 1] == "-") continue;
        else if (">)]}".includes(c)) depth = Math.max(depth - 1, 0);
        else if (depth == 0 && is_separator(c) && at + 1 < end) start = at + 1;
    }
    return start;
}
