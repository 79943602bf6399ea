//! The page of `explain`: one file, no network. Its script zooms, moves and saves the graph, and is not needed to read it.

use askama::Template;

use crate::colours::HUES;
use crate::drawing::Drawing;

/// One occurrence of a kernel, or a node by itself.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// What it is: the ops in order, with where they came from.
    pub ops: Vec<(String, String)>,
    /// Neighbours that did not join: op, reason, origin.
    pub ends: Vec<(String, String, String)>,
    /// Outputs that are written over old values or could have been: output, old value, how it is written.
    pub overwrites: Vec<(String, String, String)>,
}

/// What a click on a box shows.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Id, unique on the page.
    pub id: String,
    /// Name of the region or op.
    pub title: String,
    /// One sentence: bytes, key.
    pub facts: Vec<(String, String)>,
    /// Where it occurs.
    pub occurrences: Vec<Occurrence>,
    /// Where nodes that are alike come from, one each; empty for kernels.
    pub origins: Vec<String>,
    /// The kernel's text, or why there is none; empty for what needs none.
    pub kernel: String,
}

/// A table with a caption.
#[derive(Clone, Debug)]
pub struct Table {
    /// Caption.
    pub title: String,
    /// Heads of the columns.
    pub head: Vec<String>,
    /// Cells by rows.
    pub rows: Vec<Vec<String>>,
}

/// The whole page.
#[derive(Clone, Debug, Template)]
#[template(path = "html/explain.html", syntax = "html")]
pub struct ExplainPage {
    /// Name of the model.
    pub model: String,
    /// Figures at the top: value and what it counts.
    pub summary: Vec<(String, String)>,
    /// The graph with every step that repeats drawn once; `None` where none does.
    pub folded: Option<Drawing>,
    /// The graph with all steps.
    pub whole: Drawing,
    /// Panels, one per kernel and per kind of node by itself.
    pub panels: Vec<Panel>,
    /// Tables below the drawing.
    pub tables: Vec<Table>,
}

impl ExplainPage {
    /// The page as text.
    ///
    /// # Errors
    /// None that this template can raise; askama's words if it does.
    pub fn text(&self) -> Result<String, String> {
        self.render().map_err(|e| e.to_string())
    }

    /// The hues of kernels.
    fn hues(&self) -> std::ops::Range<usize> {
        0..HUES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colours::tests::contrast;
    use crate::colours::{DARK, LIGHT};
    use crate::drawing::{Bracket, Shape};

    fn drawing(many: bool) -> Drawing {
        let shape = Shape {
            title: "<script>".to_owned(),
            note: String::new(),
            class: "region",
            hue: 3,
            many,
            panel: "k0".to_owned(),
            hint: "<script>".to_owned(),
            x: 0,
            y: 0,
            width: 80,
            height: 40,
        };
        let bracket = Bracket { x: 4, top: 0, bottom: 40, text: "× 62".to_owned() };
        Drawing {
            label: "<b>".to_owned(),
            width: 80,
            height: 40,
            shapes: vec![shape],
            edges: Vec::new(),
            brackets: if many { vec![bracket] } else { Vec::new() },
        }
    }

    fn page(folded: Option<Drawing>) -> String {
        let panel = Panel {
            id: "k0".to_owned(),
            title: "a".to_owned(),
            facts: vec![("key".to_owned(), "<i>".to_owned())],
            occurrences: Vec::new(),
            origins: vec!["<u>".to_owned()],
            kernel: "</pre>".to_owned(),
        };
        let page = ExplainPage {
            model: "a & b".to_owned(),
            summary: Vec::new(),
            folded,
            whole: drawing(false),
            panels: vec![panel],
            tables: Vec::new(),
        };
        page.text().expect("renders")
    }

    /// The text between two marks.
    fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
        let rest = text.split_once(from).unwrap_or_else(|| panic!("`{from}` is missing")).1;
        rest.split_once(to).unwrap_or_else(|| panic!("`{to}` is missing behind `{from}`")).0
    }

    #[test]
    fn what_a_graph_says_is_escaped() {
        let text = page(Some(drawing(true)));
        assert_eq!(text.matches("<script").count(), 1, "{text}");
        assert!(text.contains("&#60;script&#62;") && text.contains("a &#38; b"), "{text}");
        for raw in ["<b>", "<i>", "<u>", "</pre></pre>"] {
            assert!(!text.contains(raw), "{raw}: {text}");
        }
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let text = page(Some(drawing(true)));
        for loads in ["src=", "@import", "<link", "url(", "fetch(", "XMLHttpRequest", "import("] {
            assert!(!text.contains(loads), "the page loads something by `{loads}`");
        }
        // Names of vocabularies are the only addresses.
        assert_eq!(text.matches("://").count(), text.matches("http://www.w3.org/2000/svg").count(), "{text}");
        assert!(text.contains("default-src 'none'"), "{text}");
    }

    #[test]
    fn the_graph_is_there_without_the_script_and_zooms_with_it() {
        let text = page(None);
        let (whole, script) = text.split_once("<script>").expect("a script");
        assert!(whole.contains("<svg") && !whole.contains("id=\"every\""), "{whole}");
        // What only the script can do is shown by the script.
        let zoom = between(whole, "<span class=\"zoom\"", "</span>");
        assert!(between(zoom, "role", ">").ends_with(" hidden"), "{zoom}");
        for deed in ["in", "out", "fit", "width", "save"] {
            assert!(zoom.contains(&format!("data-do=\"{deed}\"")), "{deed}: {zoom}");
            assert!(between(script, "const deeds = {", "};").contains(deed), "{deed}: {script}");
        }
        for event in
            ["\"wheel\"", "\"pointermove\"", "\"keydown\"", "\"focusin\"", "ArrowLeft", "XMLSerializer", "new Blob"]
        {
            assert!(script.contains(event), "{event}: {script}");
        }
        let folded = page(Some(drawing(true)));
        assert!(folded.contains("id=\"every\"") && folded.contains(">× 62</text>"), "{folded}");
        assert_eq!((text.matches("<svg").count(), folded.matches("<svg").count()), (1, 2));
        // A box that stands for several is a stack of two.
        let boxes = |text: &str| text.matches("width=\"80\" height=\"40\" rx=\"6\"").count();
        assert_eq!((boxes(&text), boxes(&folded)), (1, 3));
    }

    #[test]
    fn the_colours_of_the_page_are_told_apart_in_both_schemes() {
        let text = page(None);
        let style = between(&text, "<style>", "</style>");
        let (light, dark) = style.split_once("@media (prefers-color-scheme: dark)").expect("a dark scheme");
        for (scheme, css) in [(LIGHT, light), (DARK, dark)] {
            let colour = |name: &str| between(css, &format!("--{name}: "), ";").to_owned();
            assert_eq!(colour("back"), scheme.back);
            for ground in ["back", "sheet"] {
                for (name, least) in [("text", 4.5), ("soft", 4.5), ("link", 4.5), ("edge", 3.0)] {
                    let found = contrast(&colour(name), &colour(ground));
                    assert!(found >= least, "{name} on {ground}: {found}");
                }
            }
        }
        // Words on boxes, as the drawing itself says; the file that is saved has nothing else.
        let style = between(text.split_once("<svg").expect("a drawing").1, "<style>", "</style>");
        assert!(!style.contains("var(") && !style.contains("hsl("), "{style}");
        let (light, dark) = style.split_once("@media (prefers-color-scheme: dark)").expect("a dark scheme");
        for css in [light, dark] {
            let words = between(css, "\ntext { fill: ", ";");
            let ground = between(css, ".paper { fill: ", ";");
            for hue in 0..HUES {
                let rule = between(css, &format!(".h{hue} rect {{"), "}");
                let (fill, rim) = (between(rule, "fill: ", ";"), between(rule, "stroke: ", ";"));
                assert!(contrast(words, fill) >= 4.5 && contrast(rim, ground) >= 3.0, "{hue}: {rule}");
            }
            assert!(contrast(between(css, "path { fill: none; stroke: ", ";"), ground) >= 3.0, "{css}");
        }
    }
}
