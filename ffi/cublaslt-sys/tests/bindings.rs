//! The committed bindings are those of the header. `UPDATE_EXPECT=1` writes them.

use bindgen::{Builder, Formatter, MacroTypeVariation};
use expect_test::expect_file;

#[test]
fn bindings_are_those_of_the_header() {
    if let Err(error) = clang_sys::load() {
        println!("skipped: bindings_are_those_of_the_header ({error})");
        return;
    }
    let root = env!("CARGO_MANIFEST_DIR");
    let bindings = Builder::default()
        .header(format!("{root}/include/cublaslt.h"))
        .allowlist_file(".*/include/cublaslt\\.h")
        .dynamic_library_name("CublasLt")
        .dynamic_link_require_all(true)
        .default_macro_constant_type(MacroTypeVariation::Signed)
        .wrap_unsafe_ops(true)
        .disable_header_comment()
        .raw_line("//! Types, numbers and functions of `include/cublaslt.h`, made of it by bindgen.")
        .layout_tests(false)
        .generate_comments(false)
        .use_core()
        .formatter(Formatter::Rustfmt)
        .rustfmt_configuration_file(Some(format!("{root}/../../rustfmt.toml").into()))
        .generate();
    expect_file!["../src/bindings.rs"].assert_eq(&bindings.expect("a header of C").to_string());
}
