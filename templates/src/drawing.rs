//! A drawn graph: boxes, edges, and brackets beside steps that repeat.

/// A box of the drawing.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Name on the box.
    pub title: String,
    /// Smaller line below it; may be empty.
    pub note: String,
    /// CSS class: `region`, `single`, `library`, `reference` or `value`.
    pub class: &'static str,
    /// Index of the hue of a region's name, below [`HUES`](crate::colours::HUES).
    pub hue: usize,
    /// It stands for several boxes, one in each repeat.
    pub many: bool,
    /// Id of the panel that a click shows; empty for none.
    pub panel: String,
    /// The words that appear where the pointer rests; empty for none.
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
    pub(crate) fn middle(&self) -> i64 {
        self.x + self.width / 2
    }
}

/// A bracket along steps that repeat.
#[derive(Clone, Debug)]
pub struct Bracket {
    /// Left edge, in pixels.
    pub x: i64,
    /// Upper end, in pixels.
    pub top: i64,
    /// Lower end, in pixels.
    pub bottom: i64,
    /// How often, in words.
    pub text: String,
}

/// A graph as it is drawn.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// A description for those who do not see it.
    pub label: String,
    /// Width, in pixels.
    pub width: i64,
    /// Height, in pixels.
    pub height: i64,
    /// Boxes.
    pub shapes: Vec<Shape>,
    /// SVG paths of edges.
    pub edges: Vec<String>,
    /// Brackets at the left edge.
    pub brackets: Vec<Bracket>,
}
