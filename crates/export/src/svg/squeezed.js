// Shares of search matches if the block of idle threads is drawn narrower than its weight.
function weight_before(x) {
    var inside = Math.max(0, Math.min(squeezed[2], x - squeezed[0]));
    return x + inside * (squeezed[1] / squeezed[2] - 1);
}
function weight_between(x, end) { return weight_before(end) - weight_before(x); }
