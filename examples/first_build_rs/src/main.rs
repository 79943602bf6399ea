//! Calls a kernel that the build script made.

include!(concat!(env!("OUT_DIR"), "/fusewright_kernels.rs"));

fn main() {
    let (x, w, mut y) = ([1.0, -2.0, 3.0, -4.0], [0.5, 1.0, 2.0, -1.0], [0.0; 4]);
    scaled_relu(1, &x, &w, &mut y).expect("every slice has the length of its tensor");
    println!("{y:?}");
}
