//! The committed header declares what the library exports, as it exports it.

use std::collections::BTreeMap;
use std::path::Path;

/// How the header spells the types of the source.
const SPELLED: &[(&str, &str)] = &[
    ("*mut *const c_char", "const char **"),
    ("*const c_char", "const char *"),
    ("*mut *mut BundleHandle", "fusewright_bundle **"),
    ("*mut BundleHandle", "fusewright_bundle *"),
    ("*const BundleHandle", "const fusewright_bundle *"),
    ("*mut *mut KernelHandle", "fusewright_kernel **"),
    ("*mut KernelHandle", "fusewright_kernel *"),
    ("*const KernelHandle", "const fusewright_kernel *"),
    ("*mut KernelInfo", "fusewright_kernel_info *"),
    ("*mut ParameterInfo", "fusewright_parameter_info *"),
    ("*const TensorRef", "const fusewright_tensor *"),
    ("*mut usize", "size_t *"),
    ("*mut c_void", "void *"),
    ("usize", "size_t "),
    ("u32", "uint32_t "),
    ("Status", "fusewright_status "),
];

fn spelled(of: &str) -> &'static str {
    let found = SPELLED.iter().find(|(rust, _)| *rust == of.trim());
    found.unwrap_or_else(|| panic!("`{of}` has no spelling in C")).1
}

fn without_spaces(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Exported functions by name, as C declares them, without spaces.
fn exported() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    for file in std::fs::read_dir(folder).expect("there are sources") {
        let text = std::fs::read_to_string(file.expect("an entry").path()).expect("it is text");
        for after in text.split("#[unsafe(no_mangle)]\n").skip(1) {
            let (head, _) = after.split_once(" {\n").expect("a body");
            let (_, signature) = head.split_once("extern \"C\" fn ").expect("a function of C");
            let (name, rest) = signature.split_once('(').expect("parameters");
            let (parameters, result) = rest.rsplit_once(')').expect("an end of the parameters");
            let parameters: Vec<String> = parameters
                .split(',')
                .filter(|parameter| !parameter.trim().is_empty())
                .map(|parameter| {
                    let (name, of) = parameter.split_once(':').expect("a type");
                    format!("{}{}", spelled(of), name.trim())
                })
                .collect();
            let result = result.trim().strip_prefix("->").map_or("void ", spelled);
            let parameters = if parameters.is_empty() { "void".to_owned() } else { parameters.join(",") };
            found.insert(name.to_owned(), without_spaces(&format!("{result}{name}({parameters})")));
        }
    }
    found
}

/// Declared functions by name, without spaces.
fn declared() -> BTreeMap<String, String> {
    let header = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/fusewright.h"));
    let header = header.expect("the header is there");
    let mut code = String::new();
    let mut rest = header.as_str();
    while let Some((before, after)) = rest.split_once("/*") {
        code.push_str(before);
        rest = after.split_once("*/").expect("an end of the comment").1;
    }
    code.push_str(rest);
    let mut found = BTreeMap::new();
    for statement in code.split(';').filter(|statement| statement.contains('(')) {
        let statement: Vec<&str> = statement.lines().filter(|line| !line.starts_with(['#', '}'])).collect();
        let statement = without_spaces(&statement.concat());
        let statement = statement.strip_prefix("extern\"C\"{").unwrap_or(&statement).to_owned();
        let (head, _) = statement.split_once('(').expect("parameters");
        let at = head.rfind("fusewright_").expect("a name of ours");
        found.insert(head[at..].to_owned(), statement);
    }
    found
}

#[test]
fn the_header_declares_what_is_exported() {
    let exported = exported();
    assert!(exported.len() > 10);
    assert_eq!(declared(), exported);
}
