//! Windows, diagonals, blocks and steps of recurrent layers, against what PyTorch 2.10 and 2.15 gave on a CPU.

use super::composites::{BF16, F32, I64, Kind, Operand, Row, check, complaint};

pub(super) const OPERANDS: &[Operand] = &[
    (
        "e3",
        F32,
        &[1, 2, 7],
        &[
            0xbefae148, 0xbf19999a, 0xbf0f5c29, 0xff800000, 0xbe4ccccd, 0x3ff851ec, 0xbfb33333, 0xbf428f5c, 0x3f2147ae,
            0x7fc00000, 0xbf0f5c29, 0x3f30a3d7, 0x3e6147ae, 0xbf2b851f,
        ],
    ),
    (
        "pl",
        F32,
        &[1, 1, 4, 6],
        &[
            0x3f451eb8, 0x3f6b851f, 0xbf0f5c29, 0x3f47ae14, 0xbe851eb8, 0xbf3ae148, 0x3fd9999a, 0xbe3851ec, 0x3e2e147b,
            0x3e2e147b, 0xbf91eb85, 0xbf51eb85, 0x3f7d70a4, 0x3f051eb8, 0xbf30a3d7, 0xbebd70a4, 0x3f7d70a4, 0x3f3d70a4,
            0x3fa28f5c, 0x3fa8f5c3, 0x3fc7ae14, 0xbeb851ec, 0xbe800000, 0xc02a3d71,
        ],
    ),
    (
        "plh",
        BF16,
        &[1, 2, 4, 4],
        &[
            0x3ef2, 0x3f1b, 0xbf61, 0xbf3e, 0xbeff, 0xc000, 0xc017, 0x3e82, 0xbffc, 0xbe0c, 0x3fef, 0x3e1a, 0x3f6b,
            0x3ef1, 0x3f73, 0xc016, 0xbd95, 0xbf0c, 0x3efa, 0xbf27, 0xbf04, 0xbf46, 0x3f02, 0x3ef7, 0x3ff6, 0xbd42,
            0x3f05, 0x3f27, 0x3f98, 0x3eb8, 0xbecf, 0xbf68,
        ],
    ),
    ("gx", F32, &[2, 3], &[0xbe0f5c29, 0xbf07ae14, 0xbefae148, 0xbeeb851f, 0xbd75c28f, 0x3fa147ae]),
    ("gh", F32, &[2, 2], &[0x3f9851ec, 0x3fc8f5c3, 0xbf666666, 0xbde147ae]),
    ("gc", F32, &[2, 2], &[0x3ee147ae, 0x3fd5c28f, 0x3e4ccccd, 0xbe947ae1]),
    (
        "gw",
        F32,
        &[6, 3],
        &[
            0x3ec7ae14, 0x3f7851ec, 0xbefae148, 0x3f733333, 0xbf63d70a, 0x3f3d70a4, 0xbf051eb8, 0xbd4ccccd, 0xbf9c28f6,
            0x3ec28f5c, 0x3f91eb85, 0x3cf5c28f, 0x3f6147ae, 0x3da3d70a, 0x3e051eb8, 0xbfb47ae1, 0xbeb851ec, 0xbfcf5c29,
        ],
    ),
    (
        "gu",
        F32,
        &[6, 2],
        &[
            0xbcf5c28f, 0xbfaccccd, 0xbf170a3d, 0xbf8147ae, 0x3df5c28f, 0x3f2b851f, 0xbf866666, 0x3fd5c28f, 0xbf400000,
            0x3fa7ae14, 0xbfab851f, 0xbef5c28f,
        ],
    ),
    ("gb", F32, &[6], &[0x3d23d70a, 0xbf23d70a, 0xbf0f5c29, 0xbf4ccccd, 0x3df5c28f, 0xbfcccccd]),
    (
        "lw",
        F32,
        &[8, 3],
        &[
            0x3d8f5c29, 0x3e570a3d, 0x3e8f5c29, 0x3f9851ec, 0x3f0f5c29, 0xbf75c28f, 0x3fea3d71, 0xbf547ae1, 0x3df5c28f,
            0xbf028f5c, 0xbf800000, 0x3e6b851f, 0x3f0ccccd, 0xbef5c28f, 0x3fc3d70a, 0x40366666, 0x3e75c28f, 0x3ffae148,
            0xbf428f5c, 0xbf95c28f, 0x3e9eb852, 0x3f90a3d7, 0x3f933333, 0xbf3d70a4,
        ],
    ),
    (
        "lu",
        F32,
        &[8, 2],
        &[
            0xbf51eb85, 0xbfe51eb8, 0xbf51eb85, 0x3f99999a, 0xbdcccccd, 0x3fc00000, 0xbf1eb852, 0xbfd47ae1, 0x3eb851ec,
            0xbdb851ec, 0xbfc147ae, 0x3ec28f5c, 0x3faccccd, 0x3f8e147b, 0x3f5eb852, 0x3ea8f5c3,
        ],
    ),
    (
        "lb",
        F32,
        &[8],
        &[0xbf9851ec, 0xbf547ae1, 0xbecccccd, 0xbd75c28f, 0x3f5c28f6, 0x3ee147ae, 0x3f83d70a, 0x3fd0a3d7],
    ),
    (
        "col",
        F32,
        &[1, 4, 6],
        &[
            0, 0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000, 0x40c00000, 0x40e00000, 0x41000000,
            0x41100000, 0x41200000, 0x41300000, 0x41400000, 0x41500000, 0x41600000, 0x41700000, 0x41800000, 0x41880000,
            0x41900000, 0x41980000, 0x41a00000, 0x41a80000, 0x41b00000, 0x41b80000,
        ],
    ),
    ("d3", F32, &[3], &[0x40e00000, 0x41000000, 0x41100000]),
    ("d2", F32, &[2], &[0x40e00000, 0x41000000]),
    (
        "u4",
        F32,
        &[1, 3, 3],
        &[0x7fc00000, 0xff800000, 0xff800000, 0x7fc00000, 0xff800000, 0xff800000, 0xff800000, 0xff800000, 0x3f800000],
    ),
];

const ROWS: &[Row] = &[
    (
        "avg_pool1d.default",
        "self=e3 kernel_size=[2]",
        F32,
        &[1, 2, 3],
        &[0xbf0b851f, 0xff800000, 0x3f5eb852, 0xbd851eb8, 0x7fc00000, 0x3ee8f5c2],
    ),
    (
        "avg_pool1d.default",
        "self=e3 kernel_size=[3] stride=[2] padding=[1]",
        F32,
        &[1, 2, 4],
        &[0xbeba06d4, 0xff800000, 0xff800000, 0x3e3851ed, 0xbd317e4b, 0x7fc00000, 0x3deeeeef, 0xbe19999a],
    ),
    (
        "avg_pool1d.default",
        "self=e3 kernel_size=[3] stride=[2] padding=[1] ceil_mode=false count_include_pad=false",
        F32,
        &[1, 2, 4],
        &[0xbf0b851f, 0xff800000, 0xff800000, 0x3e8a3d72, 0xbd851eb8, 0x7fc00000, 0x3deeeeef, 0xbe666667],
    ),
    (
        "avg_pool1d.default",
        "self=e3 kernel_size=[2] stride=[2] padding=[0] ceil_mode=true",
        F32,
        &[1, 2, 4],
        &[0xbf0b851f, 0xff800000, 0x3f5eb852, 0xbfb33333, 0xbd851eb8, 0x7fc00000, 0x3ee8f5c2, 0xbf2b851f],
    ),
    (
        "avg_pool2d.default",
        "self=pl kernel_size=[2,3]",
        F32,
        &[1, 1, 2, 2],
        &[0x3ef0a3d8, 0xbeaaaaab, 0x3f540da7, 0xbea2fc97],
    ),
    (
        "avg_pool2d.default",
        "self=pl kernel_size=[3,3] stride=[2,2] padding=[1,1]",
        F32,
        &[1, 1, 2, 3],
        &[0x3eb69d04, 0x3e13e93e, 0xbe638e39, 0x3f1fdb98, 0x3e737c04, 0xbed27d27],
    ),
    (
        "avg_pool2d.default",
        "self=pl kernel_size=[3,3] stride=[2,2] padding=[1,1] ceil_mode=true count_include_pad=false",
        F32,
        &[1, 1, 3, 4],
        &[
            0x3f4d70a4, 0x3e5ddddd, 0xbeaaaaab, 0xbf466666, 0x3f6fc964, 0x3e737c04, 0xbed27d27, 0xbf69d037, 0x3fa5c290,
            0x3f570a3d, 0xbf8b851f, 0xc02a3d71,
        ],
    ),
    (
        "avg_pool2d.default",
        "self=pl kernel_size=[3,3] stride=[2,2] padding=[1,1] ceil_mode=true",
        F32,
        &[1, 1, 3, 4],
        &[
            0x3eb69d04, 0x3e13e93e, 0xbe638e39, 0xbe844444, 0x3f1fdb98, 0x3e737c04, 0xbed27d27, 0xbee9d037, 0x3edd036b,
            0x3ed70a3d, 0xbf0b851f, 0xbf2a3d71,
        ],
    ),
    (
        "avg_pool2d.default",
        "self=pl kernel_size=[2,2] stride=[2,2] padding=[0,0] ceil_mode=false count_include_pad=true divisor_override=3",
        F32,
        &[1, 1, 2, 3],
        &[0x3f88f5c3, 0x3e3f258c, 0xbf7bbbbc, 0x3faeeeef, 0x3d3f258b, 0xbec962fd],
    ),
    (
        "avg_pool2d.default",
        "self=plh kernel_size=[3,3] stride=[1,1]",
        BF16,
        &[1, 2, 2, 2],
        &[0xbf0b, 0xbeb8, 0xbe9d, 0xbeb3, 0x3e29, 0x3d8f, 0x3e9d, 0x3d32],
    ),
    (
        "max_pool1d.default",
        "self=e3 kernel_size=[2]",
        F32,
        &[1, 2, 3],
        &[0xbefae148, 0xbf0f5c29, 0x3ff851ec, 0x3f2147ae, 0x7fc00000, 0x3f30a3d7],
    ),
    (
        "max_pool1d.default",
        "self=e3 kernel_size=[3] stride=[2] padding=[1]",
        F32,
        &[1, 2, 4],
        &[0xbefae148, 0xbf0f5c29, 0x3ff851ec, 0x3ff851ec, 0x3f2147ae, 0x7fc00000, 0x3f30a3d7, 0x3e6147ae],
    ),
    (
        "max_pool1d.default",
        "self=e3 kernel_size=[2] stride=[2] padding=[0] dilation=[1] ceil_mode=true",
        F32,
        &[1, 2, 4],
        &[0xbefae148, 0xbf0f5c29, 0x3ff851ec, 0xbfb33333, 0x3f2147ae, 0x7fc00000, 0x3f30a3d7, 0xbf2b851f],
    ),
    (
        "max_pool1d.default",
        "self=e3 kernel_size=[2] stride=[1] padding=[0] dilation=[3]",
        F32,
        &[1, 2, 4],
        &[0xbefae148, 0xbe4ccccd, 0x3ff851ec, 0xbfb33333, 0xbf0f5c29, 0x3f30a3d7, 0x7fc00000, 0xbf0f5c29],
    ),
    (
        "max_pool2d.default",
        "self=pl kernel_size=[2,2]",
        F32,
        &[1, 1, 2, 3],
        &[0x3fd9999a, 0x3f47ae14, 0xbe851eb8, 0x3fa8f5c3, 0x3fc7ae14, 0x3f7d70a4],
    ),
    (
        "max_pool2d.default",
        "self=plh kernel_size=[3,3] stride=[2,2] padding=[1,1]",
        BF16,
        &[1, 2, 2, 2],
        &[0x3f1b, 0x3f1b, 0x3f6b, 0x3fef, 0xbd95, 0x3f02, 0x3ff6, 0x3f27],
    ),
    (
        "_adaptive_avg_pool2d.default",
        "self=pl output_size=[2,3]",
        F32,
        &[1, 1, 2, 3],
        &[0x3f4d70a4, 0x3e0f5c29, 0xbf3ccccd, 0x3f833333, 0x3d0f5c28, 0xbe970a3e],
    ),
    (
        "adaptive_avg_pool1d.default",
        "self=c3 output_size=[2]",
        F32,
        &[1, 2, 2],
        &[0x3f000000, 0x40200000, 0x40900000, 0x40d00000],
    ),
    (
        "_adaptive_avg_pool2d.default",
        "self=plh output_size=[2,1]",
        BF16,
        &[1, 2, 2, 1],
        &[0xbf25, 0xbc40, 0xbe0b, 0x3ed2],
    ),
    (
        "im2col.default",
        "self=pl kernel_size=[2,2] dilation=[1,2] padding=[1,0] stride=[2,1]",
        F32,
        &[1, 4, 12],
        &[
            0, 0, 0, 0, 0x3fd9999a, 0xbe3851ec, 0x3e2e147b, 0x3e2e147b, 0x3fa28f5c, 0x3fa8f5c3, 0x3fc7ae14, 0xbeb851ec,
            0, 0, 0, 0, 0x3e2e147b, 0x3e2e147b, 0xbf91eb85, 0xbf51eb85, 0x3fc7ae14, 0xbeb851ec, 0xbe800000, 0xc02a3d71,
            0x3f451eb8, 0x3f6b851f, 0xbf0f5c29, 0x3f47ae14, 0x3f7d70a4, 0x3f051eb8, 0xbf30a3d7, 0xbebd70a4, 0, 0, 0, 0,
            0xbf0f5c29, 0x3f47ae14, 0xbe851eb8, 0xbf3ae148, 0xbf30a3d7, 0xbebd70a4, 0x3f7d70a4, 0x3f3d70a4, 0, 0, 0, 0,
        ],
    ),
    (
        "im2col.default",
        "self=c kernel_size=[2,2] dilation=[1,1] padding=[0,0] stride=[2,2]",
        F32,
        &[1, 16, 1],
        &[
            0, 0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000, 0x40c00000, 0x40e00000, 0x41000000,
            0x41100000, 0x41200000, 0x41300000, 0x41400000, 0x41500000, 0x41600000, 0x41700000,
        ],
    ),
    (
        "col2im.default",
        "self=col output_size=[4,6] kernel_size=[2,2] dilation=[1,1] padding=[0,0] stride=[2,2]",
        F32,
        &[1, 1, 4, 6],
        &[
            0, 0x40c00000, 0x3f800000, 0x40e00000, 0x40000000, 0x41000000, 0x41400000, 0x41900000, 0x41500000,
            0x41980000, 0x41600000, 0x41a00000, 0x40400000, 0x41100000, 0x40800000, 0x41200000, 0x40a00000, 0x41300000,
            0x41700000, 0x41a80000, 0x41800000, 0x41b00000, 0x41880000, 0x41b80000,
        ],
    ),
    (
        "block_diag.default",
        "tensors=(a,v,m)",
        F32,
        &[6, 8],
        &[
            0x3f800000, 0x40200000, 0xc0400000, 0, 0, 0, 0, 0, 0x3dcccccd, 0x3e4ccccd, 0x3ecccccd, 0, 0, 0, 0, 0, 0, 0,
            0, 0x40400000, 0xbf800000, 0, 0, 0, 0, 0, 0, 0, 0, 0x3f000000, 0x3e800000, 0x3f4ccccd, 0, 0, 0, 0, 0,
            0x3e99999a, 0x3f666666, 0x3dcccccd, 0, 0, 0, 0, 0, 0x3f19999a, 0x3f333333, 0x3e4ccccd,
        ],
    ),
    (
        "cartesian_prod.default",
        "tensors=(v,w)",
        F32,
        &[6, 2],
        &[
            0x40400000, 0x3f000000, 0x40400000, 0x40000000, 0x40400000, 0x3f800000, 0xbf800000, 0x3f000000, 0xbf800000,
            0x40000000, 0xbf800000, 0x3f800000,
        ],
    ),
    (
        "diagonal_scatter.default",
        "self=m src=d3",
        F32,
        &[3, 3],
        &[0x40e00000, 0x3e800000, 0x3f4ccccd, 0x3e99999a, 0x41000000, 0x3dcccccd, 0x3f19999a, 0x3f333333, 0x41100000],
    ),
    (
        "diagonal_scatter.default",
        "self=m src=d2 offset=1",
        F32,
        &[3, 3],
        &[0x3f000000, 0x40e00000, 0x3f4ccccd, 0x3e99999a, 0x3f666666, 0x41000000, 0x3f19999a, 0x3f333333, 0x3e4ccccd],
    ),
    (
        "diagonal_scatter.default",
        "self=m src=d2 offset=-1 dim1=0 dim2=1",
        F32,
        &[3, 3],
        &[0x3f000000, 0x3e800000, 0x3f4ccccd, 0x40e00000, 0x3f666666, 0x3dcccccd, 0x3f19999a, 0x41000000, 0x3e4ccccd],
    ),
    (
        "diagonal_scatter.default",
        "self=a src=d2 offset=1 dim1=0 dim2=1",
        F32,
        &[2, 3],
        &[0x3f800000, 0x40e00000, 0xc0400000, 0x3dcccccd, 0x3e4ccccd, 0x41000000],
    ),
    (
        "diagonal_scatter.default",
        "self=a src=d2 offset=0 dim1=1 dim2=0",
        F32,
        &[2, 3],
        &[0x40e00000, 0x40200000, 0xc0400000, 0x3dcccccd, 0x41000000, 0x3ecccccd],
    ),
    (
        "gru_cell.default",
        "input=gx hx=gh w_ih=gw w_hh=gu b_ih=gb b_hh=gb",
        F32,
        &[2, 2],
        &[0x3f501d68, 0x3de5c90c, 0x3d0ed1b4, 0xbf43f688],
    ),
    (
        "gru_cell.default",
        "input=gx hx=gh w_ih=gw w_hh=gu",
        F32,
        &[2, 2],
        &[0x3f820863, 0x3fa61722, 0xbe634cf2, 0xbe57306a],
    ),
    ("bucketize.Scalar", "self=0.3 boundaries=so", I64, &[], &[2]),
    ("bucketize.Scalar", "self=1 boundaries=so right=true", I64, &[], &[4]),
];

/// Target, arguments, and both results.
type Pair = (&'static str, &'static str, [(Kind, &'static [i64], &'static [i64]); 2]);

const PAIRS: &[Pair] = &[
    (
        "max_pool2d_with_indices.default",
        "self=pl kernel_size=[2,2]",
        [
            (F32, &[1, 1, 2, 3], &[0x3fd9999a, 0x3f47ae14, 0xbe851eb8, 0x3fa8f5c3, 0x3fc7ae14, 0x3f7d70a4]),
            (I64, &[1, 1, 2, 3], &[6, 3, 4, 19, 20, 16]),
        ],
    ),
    (
        "max_pool2d_with_indices.default",
        "self=pl kernel_size=[3,3] stride=[2,2] padding=[1,1]",
        [
            (F32, &[1, 1, 2, 3], &[0x3fd9999a, 0x3f6b851f, 0x3f47ae14, 0x3fd9999a, 0x3fc7ae14, 0x3f7d70a4]),
            (I64, &[1, 1, 2, 3], &[6, 1, 3, 6, 20, 16]),
        ],
    ),
    (
        "max_pool2d_with_indices.default",
        "self=u4 kernel_size=[2,2] stride=[1,1] padding=[1,1]",
        [
            (
                F32,
                &[1, 4, 4],
                &[
                    0x7fc00000, 0x7fc00000, 0xff800000, 0xff800000, 0x7fc00000, 0x7fc00000, 0xff800000, 0xff800000,
                    0x7fc00000, 0x7fc00000, 0x3f800000, 0x3f800000, 0xff800000, 0xff800000, 0x3f800000, 0x3f800000,
                ],
            ),
            (I64, &[1, 4, 4], &[0, 0, 1, 2, 3, 3, 1, 2, 3, 3, 8, 8, 6, 6, 8, 8]),
        ],
    ),
    (
        "lstm_cell.default",
        "input=gx hx=(gh,gc) w_ih=lw w_hh=lu b_ih=lb b_hh=lb",
        [
            (F32, &[2, 2], &[0x3eb2982d, 0xbe5edfd6, 0x3e6436b7, 0xbdf421f2]),
            (F32, &[2, 2], &[0x3ebaee0b, 0xbe6558fc, 0x3e8e4973, 0xbe2c5872]),
        ],
    ),
];

#[test]
fn windows_and_diagonals_are_those_of_the_framework() {
    check(ROWS);
}

/// The first of equals is the largest of a window, and the last NaN; a cell is a result of its own.
#[test]
fn places_of_the_largest_and_cells_are_those_of_the_framework() {
    let complaints: Vec<String> = PAIRS.iter().filter_map(|(op, given, both)| complaint(op, given, both)).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
