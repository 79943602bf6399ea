//! The picture of `explain`: one SVG file, no script, light and dark.

use askama::Template;

use crate::drawing::Bracket;

/// A box with a word in it.
#[derive(Clone, Debug)]
pub struct Chip {
    /// The word.
    pub text: String,
    /// CSS class: `library`, `reference`, or `h` and the index of a hue, below [`HUES`](crate::colours::HUES).
    pub class: String,
    /// Left edge, in pixels.
    pub x: i64,
    /// Upper edge, in pixels.
    pub y: i64,
    /// Width, in pixels.
    pub width: i64,
    /// Height, in pixels.
    pub height: i64,
}

impl Chip {
    fn middle(&self) -> i64 {
        self.x + self.width / 2
    }

    fn baseline(&self) -> i64 {
        self.y + self.height / 2 + 4
    }
}

/// The steps of a call in order: on the left one op each, on the right fused.
#[derive(Clone, Debug, Template)]
#[template(path = "html/steps.svg", escape = "html", syntax = "html")]
pub struct StepsPicture {
    /// Name of the model.
    pub title: String,
    /// Head of the left column.
    pub left: String,
    /// Head of the right column.
    pub right: String,
    /// Width, in pixels.
    pub width: i64,
    /// Height, in pixels.
    pub height: i64,
    /// Left edge of the left column, in pixels.
    pub margin: i64,
    /// Left edge of the right column, in pixels.
    pub second: i64,
    /// The hues that are used.
    pub hues: Vec<usize>,
    /// Both columns' boxes.
    pub chips: Vec<Chip>,
    /// Arrows from the left to the right: start, height, end.
    pub arrows: Vec<(i64, i64, i64)>,
    /// Brackets along lines that repeat.
    pub brackets: Vec<Bracket>,
    /// Words beside boxes: left edge, baseline, text.
    pub notes: Vec<(i64, i64, String)>,
}

impl StepsPicture {
    /// The picture as text.
    ///
    /// # Errors
    /// None that this template can raise; askama's words if it does.
    pub fn text(&self) -> Result<String, String> {
        self.render().map(|text| text + "\n").map_err(|e| e.to_string())
    }
}
