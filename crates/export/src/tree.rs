//! Trees of calls as lines of text, and as entries for machines.

use rprof_profile::Profile;
use rprof_profile::call_tree::{CallTree, Growth};
use serde::Serialize;

use crate::amounts::percent;
use crate::frame_text::unnamed;
use crate::names::{CleanName, CleanNames};

/// Options for the trees of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeOptions {
    /// Callers of functions, or what they called.
    pub growth: Growth,
    /// Least share of a branch that is shown, in percent of all samples.
    pub percent_limit: f64,
}

/// Width of lines where no terminal says one.
const WIDTH: usize = 120;

/// Node of a tree for machines, in preorder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeEntry {
    /// Distance from the row's function, from 1.
    pub depth: u32,
    /// Function, or its object in brackets.
    pub symbol: String,
    /// Weight of the samples with this chain.
    pub weight: u64,
}

/// Makes the entries of the branches that are heavy enough.
pub fn entries(
    profile: &Profile,
    tree: &CallTree,
    whole: u64,
    options: &TreeOptions,
) -> Vec<TreeEntry> {
    let mut entries = Vec::new();
    let mut at = 0;
    while let Some(node) = tree.nodes.get(at) {
        if percent(node.weight, whole) < options.percent_limit {
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

/// Draws the tree below a row. Calls without a branch between them share a line, which goes on in the next where it is
/// too long; names longer than a line are shortened.
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
        whole,
        options,
        width: width.unwrap_or(WIDTH),
    };
    let mut lines = Vec::new();
    // Nodes whose children are to be drawn, each with what stands before them; no recursion, as trees may be deep.
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
        // The line goes on under its first name, beside the branches that follow.
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
    whole: u64,
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
    /// Branches that are too light to be drawn.
    Rest {
        count: usize,
        weight: u64,
    },
}

impl Drawing<'_> {
    fn is_shown(&self, node: usize) -> bool {
        percent(self.tree.nodes[node].weight, self.whole) >= self.options.percent_limit
    }

    /// Returns what is drawn right below a node.
    fn branches(&self, node: Option<usize>, before: &str) -> Vec<Branch> {
        let (shown, light): (Vec<usize>, Vec<usize>) = self
            .tree
            .children(node)
            .partition(|child| self.is_shown(*child));
        let weight = light
            .iter()
            .map(|child| self.tree.nodes[*child].weight)
            .sum();
        let rest = (!light.is_empty() && !shown.is_empty()).then_some(Kind::Rest {
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

    /// Returns the names from a node to where its samples part, and the last node.
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
    let function = tree.nodes[node].function;
    match CleanNames::new(profile).function(function) {
        Some(name) => CleanName::into_owned(name),
        None => unnamed(profile, profile.function(function).object),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rprof_profile::{Keys, ProfileBuilder, TopFunctions, WeighBy, WeightUnit};

    /// Draws the callers of the heaviest leaf.
    fn drawn(stacks: &[(&str, u64)], width: usize) -> String {
        let mut builder = ProfileBuilder::new();
        let event = builder.add_event("cpu-clock", WeightUnit::Nanoseconds);
        let object = builder.intern_object("o");
        let thread = builder.intern_thread_name("t");
        for (stack, weight) in stacks {
            let frames: Vec<_> = (stack.split(';'))
                .map(|name| builder.intern_function(Ok(name), object).into())
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
