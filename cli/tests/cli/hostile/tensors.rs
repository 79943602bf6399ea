//! Bad safetensors files.

use super::Cases;
use crate::support::fixture;

/// A file of a header and data.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// A header of one tensor.
fn header(dtype: &str, shape: &str, offsets: &str) -> String {
    format!("{{\"in0\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}")
}

#[test]
fn files_that_hold_no_tensors() {
    let mut cases = Cases::new("safetensors");
    let model = fixture("overwritten_views.train.pt2");
    let run: [&[&str]; 1] = [&["run", &model, "--check", "FILE"]];
    let whole = std::fs::read(fixture("overwritten_views.safetensors")).expect("the fixture is readable");
    for length in [0, 1, 7, 8, 9, 100, whole.len() / 2, whole.len() - 1] {
        cases.misread(&format!("cut to {length}"), &whole[..length], &run, &["not a safetensors file"]);
    }
    let mut refused = |what: &str, bytes: Vec<u8>| cases.misread(what, &bytes, &run, &["not a safetensors file"]);
    refused("wrong magic", b"PK\x03\x04 this is an archive".to_vec());
    for length in [u64::MAX, 1 << 63, 1 << 40, 99_999_999] {
        refused("header of any length", [&length.to_le_bytes(), &whole[8..]].concat());
    }
    refused("deep lists", file(&("[".repeat(100_000) + &"]".repeat(100_000)), 0));
    refused("deep objects", file(&("{\"a\":".repeat(100_000) + &"}".repeat(100_000)), 0));
    refused("not JSON", file("tensors", 0));
    refused("no UTF-8", [&3u64.to_le_bytes()[..], &[b'"', 0xff, b'"']].concat());
    refused("unknown dtype", file(&header("F31", "[2]", "[0,8]"), 8));
    refused("negative extent", file(&header("F32", "[-2]", "[0,8]"), 8));
    refused("extent beyond 64 bits", file(&header("F32", "[18446744073709551616]", "[0,8]"), 8));
    refused("overflow", file(&header("F32", "[4611686018427387904,4]", "[0,8]"), 8));
    refused("short", file(&header("F32", "[4]", "[0,8]"), 8));
    refused("beyond the end", file(&header("F32", "[4]", "[0,16]"), 8));
    refused("backwards", file(&header("F32", "[2]", "[8,0]"), 8));
    refused("negative offset", file(&header("F32", "[2]", "[-8,0]"), 8));
    refused("far offset", file(&header("F32", "[2]", "[18446744073709551608,18446744073709551615]"), 8));
    refused("more than it says", file(&header("F32", "[2]", "[0,8]"), 9));
    let two = "{\"in0\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\
                \"in1\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}";
    refused("overlap", file(two, 12));
    cases.finish(28);
}

#[test]
fn tensors_that_are_not_asked_for() {
    let mut cases = Cases::new("safetensors");
    let model = fixture("overwritten_views.train.pt2");
    let run: [&[&str]; 1] = [&["run", &model, "--check", "FILE"]];
    let tensor = |name: String, at: usize| {
        format!("\"{name}\":{{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[{at},{}]}}", at + 4)
    };
    let double = format!("{{{},{}}}", tensor("in0".into(), 0), tensor("in0".into(), 4));
    cases.misread("one name twice", &file(&double, 8), &run, &[]);
    let many: Vec<String> = (0..10_000).map(|i| tensor(format!("in{i}"), 4 * i)).collect();
    cases.misread("ten thousand", &file(&format!("{{{}}}", many.join(",")), 40_000), &run, &["2 inputs"]);
    let unknown = "{\"in0\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}}";
    cases.misread("complex numbers", &file(unknown, 8), &run, &["`in0`", "C64"]);
    cases.misread("nothing", &file("{}", 0), &run, &["in0"]);
    cases.finish(4);
}
