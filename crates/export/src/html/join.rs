//! Joins the page's modules into one script.
//!
//! The modules are ES modules, so that tests and type checks can load them. A page that makes no
//! requests needs one classic script.

/// Joins modules. Each may import only from earlier ones.
///
/// An import is `import { … } from "./name.js";`, on one line or several. `export` must begin a
/// line, before `function`, `const`, `let`, `class` or `async function`. Comments on their own
/// lines are dropped. All other text is copied.
pub(super) fn join(modules: &[&str]) -> String {
    let mut script = String::from("\"use strict\";\n(() => {\n");
    for module in modules {
        let (mut is_import, mut is_comment) = (false, false);
        for line in module.lines() {
            let bare = line.trim();
            // In `/** @type {…} */ (x)`, code follows the comment.
            is_comment |= bare.starts_with("/**") && (bare.ends_with("*/") || !bare.contains("*/"));
            if is_comment {
                is_comment = !bare.ends_with("*/");
                continue;
            }
            is_import |= line.starts_with("import ");
            if is_import {
                is_import = !line.ends_with(';');
                continue;
            }
            let line = line.strip_prefix("export ").unwrap_or(line);
            if !bare.starts_with("//") && !bare.is_empty() {
                script.push_str(line);
                script.push('\n');
            }
        }
    }
    script.push_str("})();\n");
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_and_exports_go() {
        let modules = [
            "// Numbers.\n/** One. */\nexport const one = 1;\n\n/**\n * Two.\n * @returns {number}\n */\nexport function two() {\n  return 2; // two\n}\n",
            "import {\n  one,\n  two,\n} from \"./numbers.js\";\nimport { x } from \"./x.js\";\n/** @type {number} */ (y) = one;\n",
        ];
        assert_eq!(
            join(&modules),
            "\"use strict\";\n(() => {\nconst one = 1;\nfunction two() {\n  return 2; // two\n}\n/** @type {number} */ (y) = one;\n})();\n"
        );
    }
}
