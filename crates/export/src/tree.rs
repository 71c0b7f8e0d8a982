//! Call trees as lines of text, and as entries for JSON.

use rprof_profile::Profile;
use rprof_profile::views::call_tree::{CallNode, CallTree, Growth};
use serde::Serialize;

use crate::amounts::{SHOWN_AS_ZERO, percent};
use crate::frame_text::shown_name;

/// Options of the call trees of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeOptions {
    /// Direction: callers or callees.
    pub growth: Growth,
    /// Minimum share of a shown branch in all samples, in percent. In flat profiles, twenty times
    /// this share of its row also suffices. See [`shown_branches`].
    pub percent_limit: f64,
}

const MIN_BRANCHES: usize = 3;

/// Factor between the limit for all samples and the limit for one row.
const ROW_FACTOR: f64 = 20.0;

fn is_heavy(weight: u64, of_row: u64, whole: u64, limit: f64) -> bool {
    percent(weight, whole) >= limit || percent(weight, of_row) >= limit * ROW_FACTOR
}

/// Returns the number of branches to show next to a row. A branch qualifies if it has `limit`
/// percent of all samples (`whole`), or twenty times that percentage of its row (`of_row`). If no
/// branch qualifies, returns three, or the number of branches if there are fewer.
///
/// `weights` are the weights of all branches, in descending order.
///
/// # Examples
/// ```
/// use rprof_export::shown_branches;
///
/// // A row with 1 % of everything, and callers that have 0.4 %, 0.3 % and so on.
/// assert_eq!(shown_branches(&[40, 30, 15, 12, 2, 1], 100, 10_000, 0.5), 4);
/// assert_eq!(shown_branches(&[2; 50], 100, 10_000, 0.5), 3);
/// assert_eq!(shown_branches(&[], 100, 10_000, 0.5), 0);
/// ```
pub fn shown_branches(weights: &[u64], of_row: u64, whole: u64, limit: f64) -> usize {
    match weights.partition_point(|weight| is_heavy(*weight, of_row, whole, limit)) {
        0 => weights.len().min(MIN_BRANCHES),
        shown => shown,
    }
}

const WIDTH: usize = 120;

/// Node of a call tree in preorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeEntry {
    /// Distance from the row's function, from 1.
    pub depth: u32,
    /// Function, or its object in brackets.
    pub symbol: String,
    /// Weight of the samples with this chain.
    pub weight: u64,
}

/// Returns the entries of branches that are heavy enough.
pub fn entries(
    profile: &Profile,
    tree: &CallTree,
    whole: u64,
    options: &TreeOptions,
) -> Vec<TreeEntry> {
    let shown = ShownNodes::of(tree, whole, options);
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(node) = tree.nodes.get(at) {
        if !shown.has(tree, at) {
            at = node.end;
            continue;
        }
        entries.push(TreeEntry {
            depth: node.depth,
            symbol: name(profile, tree, at),
            weight: node.weight,
        });
        at += 1;
    }
    entries
}

struct ShownNodes {
    /// Index after the last shown branch next to the row.
    end: usize,
    of_row: u64,
    whole: u64,
    limit: f64,
}

impl ShownNodes {
    fn of(tree: &CallTree, whole: u64, options: &TreeOptions) -> ShownNodes {
        let branches: Vec<usize> = tree.children(None).collect();
        let weights: Vec<u64> = (branches.iter())
            .map(|branch| tree.nodes[*branch].weight)
            .collect();
        let of_row = weights
            .iter()
            .fold(0u64, |sum, weight| sum.saturating_add(*weight));
        let count = shown_branches(&weights, of_row, whole, options.percent_limit);
        ShownNodes {
            end: branches.get(count).copied().unwrap_or(tree.nodes.len()),
            of_row,
            whole,
            limit: options.percent_limit,
        }
    }

    fn has(&self, tree: &CallTree, node: usize) -> bool {
        let CallNode { weight, depth, .. } = tree.nodes[node];
        match depth {
            1 => node < self.end,
            _ => is_heavy(weight, self.of_row, self.whole, self.limit),
        }
    }
}

/// Draws the tree below a row. Unbranched chains share a line, which wraps. Longer names are
/// shortened.
pub fn lines(
    profile: &Profile,
    tree: &CallTree,
    whole: u64,
    options: &TreeOptions,
    indent: usize,
    width: Option<usize>,
) -> Vec<String> {
    let drawing = Drawing {
        profile,
        tree,
        shown: ShownNodes::of(tree, whole, options),
        options,
        width: width.unwrap_or(WIDTH),
    };
    let mut lines = Vec::new();
    // With line prefixes. Trees may be too deep for recursion.
    let mut pile: Vec<Branch> = drawing.branches(None, &" ".repeat(indent));
    pile.reverse();
    while let Some(branch) = pile.pop() {
        let (node, rest) = match branch.kind {
            Kind::Node(node) => (node, None),
            Kind::Rest { count, weight } => (0, Some((count, weight))),
        };
        let corner = if branch.is_last { "└─ " } else { "├─ " };
        let below = format!(
            "{}{}",
            branch.before,
            if branch.is_last { "   " } else { "│  " }
        );
        if let Some((count, weight)) = rest {
            let share = percent(weight, whole);
            lines.push(format!(
                "{}{corner}{share:.2}%  … {count} more",
                branch.before
            ));
            continue;
        }
        let share = format!("{:.2}%  ", percent(tree.nodes[node].weight, whole));
        let (chain, last) = drawing.chain(node);
        let mut next = drawing.branches(Some(last), &below);
        // Under the first name, beside the following branches.
        let hanging = match next.is_empty() {
            true => format!("{below}{}", " ".repeat(share.len())),
            false => format!("{below}│{}", " ".repeat(share.len() - 1)),
        };
        lines.extend(drawing.wrapped(
            &format!("{}{corner}{share}", branch.before),
            &hanging,
            &chain,
        ));
        next.reverse();
        pile.extend(next);
    }
    lines
}

struct Drawing<'p> {
    profile: &'p Profile,
    tree: &'p CallTree,
    shown: ShownNodes,
    options: &'p TreeOptions,
    width: usize,
}

struct Branch {
    before: String,
    is_last: bool,
    kind: Kind,
}

enum Kind {
    Node(usize),
    /// Branches that are too light to draw.
    Rest {
        count: usize,
        weight: u64,
    },
}

impl Drawing<'_> {
    fn branches(&self, node: Option<usize>, before: &str) -> Vec<Branch> {
        let (shown, light): (Vec<usize>, Vec<usize>) = self
            .tree
            .children(node)
            .partition(|child| self.shown.has(self.tree, *child));
        let weight = light
            .iter()
            .map(|child| self.tree.nodes[*child].weight)
            .sum();
        // `0.00%` is useless.
        let is_something = percent(weight, self.shown.whole) >= SHOWN_AS_ZERO;
        let rest = (!light.is_empty() && !shown.is_empty() && is_something).then_some(Kind::Rest {
            count: light.len(),
            weight,
        });
        let mut branches: Vec<Branch> = (shown.into_iter().map(Kind::Node).chain(rest))
            .map(|kind| Branch {
                before: before.to_owned(),
                is_last: false,
                kind,
            })
            .collect();
        if let Some(last) = branches.last_mut() {
            last.is_last = true;
        }
        branches
    }

    /// Returns the names from a node to the next fork, and the last node.
    fn chain(&self, node: usize) -> (Vec<String>, usize) {
        let (mut names, mut last) = (vec![name(self.profile, self.tree, node)], node);
        loop {
            let mut children = self.tree.children(Some(last));
            match (children.next(), children.next()) {
                (Some(only), None)
                    if self.tree.nodes[only].weight == self.tree.nodes[last].weight =>
                {
                    names.push(name(self.profile, self.tree, only));
                    last = only;
                }
                _ => return (names, last),
            }
        }
    }

    fn wrapped(&self, first: &str, hanging: &str, names: &[String]) -> Vec<String> {
        let arrow = match self.options.growth {
            Growth::Callers => " ← ",
            Growth::Callees => " → ",
        };
        let count = |text: &str| text.chars().count();
        let room = self.width.saturating_sub(count(hanging)).max(24);
        let (mut lines, mut line, mut has_name) = (Vec::new(), first.to_owned(), false);
        for name in names {
            let elided = match count(name) > room {
                true => crate::generics::elide_arguments(name),
                false => name.as_str().into(),
            };
            let name = crate::clean::shorten(&elided, room);
            if has_name && count(&line) + count(arrow) + count(&name) > self.width {
                line.push_str(arrow.trim_end());
                lines.push(std::mem::replace(&mut line, hanging.to_owned()));
                has_name = false;
            }
            if has_name {
                line.push_str(arrow);
            }
            line.push_str(&name);
            has_name = true;
        }
        lines.push(line);
        lines
    }
}

fn name(profile: &Profile, tree: &CallTree, node: usize) -> String {
    shown_name(profile, tree.nodes[node].function)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{Keys, ProfileBuilder, TopFunctions, WeighBy, WeightUnit};

    fn drawn(stacks: &[(&str, u64)], width: usize) -> String {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let object = builder.intern_object("o");
        let thread = builder.intern_thread_name("t");
        for (stack, weight) in stacks {
            let frames: Vec<_> = (stack.split(';'))
                .map(|name| builder.intern_function(Ok(name), object))
                .collect();
            let stack = builder.intern_stack(&frames);
            builder.add_samples(event, thread, stack, 1, *weight);
        }
        let profile = builder.finish();
        let mut top = TopFunctions::of(&profile, 0, WeighBy::Period, Keys::FUNCTIONS);
        top.sort(false);
        let options = TreeOptions {
            growth: Growth::Callers,
            percent_limit: 1.0,
        };
        let keys = [top.rows[0].key];
        let trees = CallTree::of(
            &profile,
            0,
            WeighBy::Period,
            Keys::FUNCTIONS,
            &keys,
            options.growth,
        );
        lines(
            &profile,
            &trees[0],
            top.weight_total,
            &options,
            2,
            Some(width),
        )
        .join("\n")
    }

    #[test]
    fn chains_share_a_line_and_light_branches_are_counted() {
        let stacks = [
            ("start;main;left;work", 600),
            ("start;main;right;work", 300),
            ("start;thread;work", 95),
            ("start;a;work", 3),
            ("start;b;work", 2),
        ];
        let text = drawn(&stacks, 80);
        let expected = "  ├─ 60.00%  left ← main ← start
  ├─ 30.00%  right ← main ← start
  ├─ 9.50%  thread ← start
  └─ 0.50%  … 2 more";
        assert_eq!(text, expected);
    }

    #[test]
    fn branches_of_a_light_row_are_shown_by_their_share_of_the_row() {
        // A hundred functions. The heaviest has many light callers.
        let mut stacks = vec![
            ("main;parse;hot".to_owned(), 60),
            ("main;fold;hot".to_owned(), 40),
        ];
        stacks.extend((0..20).map(|n| (format!("main;pass_{n};hot"), 1)));
        stacks.extend((0..99).map(|n| (format!("main;other_{n}"), 100)));
        let stacks: Vec<(&str, u64)> = (stacks.iter()).map(|(s, n)| (&**s, *n)).collect();
        let expected = "  ├─ 0.60%  parse ← main
  ├─ 0.40%  fold ← main
  └─ 0.20%  … 20 more";
        assert_eq!(drawn(&stacks, 80), expected);
    }

    #[test]
    fn the_heaviest_branches_are_shown_where_all_are_light() {
        let stacks: Vec<(String, u64)> = (0..200)
            .map(|n| (format!("main;caller_{n:03};hot"), 1000 - n))
            .collect();
        let stacks: Vec<(&str, u64)> = (stacks.iter()).map(|(s, n)| (&**s, *n)).collect();
        let expected = "  ├─ 0.56%  caller_000 ← main
  ├─ 0.55%  caller_001 ← main
  ├─ 0.55%  caller_002 ← main
  └─ 98.34%  … 197 more";
        assert_eq!(drawn(&stacks, 80), expected);
    }

    #[test]
    fn branches_hang_below_what_they_have_in_common() {
        let stacks = [("main;left;call;work", 7), ("main;right;call;work", 3)];
        let expected = "  └─ 100.00%  call
     ├─ 70.00%  left ← main
     └─ 30.00%  right ← main";
        assert_eq!(drawn(&stacks, 80), expected);
    }

    #[test]
    fn long_chains_go_on_in_the_next_line() {
        let stack = (0..12)
            .map(|n| format!("function_{n:02}"))
            .collect::<Vec<_>>()
            .join(";");
        let text = drawn(&[(&stack, 1)], 60);
        assert!(text.lines().count() > 2, "{text}");
        assert!(
            text.lines().all(|line| line.chars().count() <= 60),
            "{text}"
        );
        let names: Vec<&str> = text
            .split([' ', '\n'])
            .filter(|word| word.starts_with("function_"))
            .collect();
        let expected: Vec<String> = (0..11).rev().map(|n| format!("function_{n:02}")).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn deep_trees_are_drawn_without_recursion() {
        let deep = (0..20_000)
            .map(|n| format!("f{n}"))
            .collect::<Vec<_>>()
            .join(";");
        assert!(drawn(&[(&deep, 1)], 100).contains("f0"));
    }
}
