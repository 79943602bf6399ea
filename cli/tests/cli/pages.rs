//! Examples in pages of this project are what the command takes.

use std::path::Path;

use crate::support::{call, folder, write};

/// The blocks of a page that are in the text form.
fn examples(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{page}: {e}"));
    let blocks = text.split("```fw\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.map(str::to_owned).collect()
}

#[test]
fn examples_of_the_text_form_are_read_and_agree() {
    let folder = folder();
    let examples = examples("docs/text-form.md");
    assert!(examples.len() >= 3, "{} examples", examples.len());
    for text in examples {
        let file = write(&folder, "example.fw", &text);
        let printed = call(&["opt", &file]);
        assert_eq!(printed.code, Some(0), "{text}{}", printed.stderr);
        let again = write(&folder, "again.fw", &printed.stdout);
        assert_eq!(call(&["opt", &again]).stdout, printed.stdout, "{text}");
        let compared = call(&["opt", &file, "diff"]);
        assert_eq!(compared.code, Some(0), "{text}{}{}", compared.stdout, compared.stderr);
        assert!(text.trim_end().ends_with("; equal") && compared.stdout.contains(": equal, "), "{}", compared.stdout);
        assert_eq!(call(&["opt", &file, "run", "--rows", "2"]).code, Some(0), "{text}");
    }
}
