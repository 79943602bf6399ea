//! The page of `explain`: one file, no network, no script.

use askama::Template;

/// A box of the drawing.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Name on the box.
    pub title: String,
    /// Smaller line below it; may be empty.
    pub note: String,
    /// CSS class: `region`, `single`, `library`, `reference` or `value`.
    pub class: &'static str,
    /// Index of the hue of a region's name, 0 to 11.
    pub hue: usize,
    /// Id of the panel that a click shows; empty for none.
    pub panel: String,
    /// What is shown where the pointer rests; empty for nothing.
    pub hint: String,
    /// Left edge, in pixels.
    pub x: i64,
    /// Upper edge, in pixels.
    pub y: i64,
    /// Width, in pixels.
    pub width: i64,
    /// Height, in pixels.
    pub height: i64,
}

impl Shape {
    fn middle(&self) -> i64 {
        self.x + self.width / 2
    }
}

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
    /// Width of the drawing, in pixels.
    pub width: i64,
    /// Height of the drawing, in pixels.
    pub height: i64,
    /// Boxes of the drawing.
    pub shapes: Vec<Shape>,
    /// SVG paths of its edges.
    pub edges: Vec<String>,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_graph_says_is_escaped() {
        let shape = Shape {
            title: "<script>".to_owned(),
            note: String::new(),
            class: "region",
            hue: 3,
            panel: "k0".to_owned(),
            hint: "<script>".to_owned(),
            x: 0,
            y: 0,
            width: 80,
            height: 40,
        };
        let page = ExplainPage {
            model: "a & b".to_owned(),
            summary: Vec::new(),
            width: 80,
            height: 40,
            shapes: vec![shape],
            edges: Vec::new(),
            panels: Vec::new(),
            tables: Vec::new(),
        };
        let text = page.text().expect("renders");
        assert!(!text.contains("<script") && text.contains("&#60;script&#62;"), "{text}");
        assert!(text.contains("a &#38; b"), "{text}");
        for loads in ["src=", "@import", "<link", "url("] {
            assert!(!text.contains(loads), "the page loads something by `{loads}`");
        }
    }
}
