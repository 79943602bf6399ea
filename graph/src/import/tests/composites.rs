//! Ops that the training IR keeps and core ATen takes apart, against what PyTorch 2.10 gave for them on a CPU.

use super::attention::{argument, call, one_node, tensor};
use super::windows;
use crate::DType;
use crate::interp::{self, Symbols};
use crate::tensor::Tensor;

/// A dtype with its code in files.
pub(super) type Kind = (i64, DType);

pub(super) const F32: Kind = (7, DType::F32);
pub(super) const F16: Kind = (6, DType::F16);
pub(super) const BF16: Kind = (13, DType::BF16);
const I32: Kind = (4, DType::I32);
pub(super) const I64: Kind = (5, DType::I64);
const BOOL: Kind = (12, DType::Bool);

/// Target, arguments, and dtype, shape and bits of the result. An argument is the name of an operand, a number, a truth
/// value, a list of numbers, or operands in parentheses.
pub(super) type Row = (&'static str, &'static str, Kind, &'static [i64], &'static [i64]);

/// Name, dtype, shape and bits of a tensor.
pub(super) type Operand = (&'static str, Kind, &'static [i64], &'static [i64]);

const OPERANDS: &[Operand] = &[
    ("a", F32, &[2, 3], &[0x3f800000, 0x40200000, 0xc0400000, 0x3dcccccd, 0x3e4ccccd, 0x3ecccccd]),
    ("b", F32, &[2, 3], &[0xc0000000, 0x40000000, 0x40400000, 0x3f333333, 0x3f800000, 0x3e99999a]),
    ("n", F32, &[2, 3], &[0x7fc00000, 0x40200000, 0x80000000, 0x3e99999a, 0x7fc00000, 0x3ecccccd]),
    (
        "m",
        F32,
        &[3, 3],
        &[0x3f000000, 0x3e800000, 0x3f4ccccd, 0x3e99999a, 0x3f666666, 0x3dcccccd, 0x3f19999a, 0x3f333333, 0x3e4ccccd],
    ),
    ("h", BF16, &[2, 3], &[0x3f80, 0x4020, 0xc040, 0x3dcd, 0x3e4d, 0x3ecd]),
    ("k", BF16, &[2, 3], &[0xc000, 0x4000, 0x4040, 0x3f33, 0x3f80, 0x3e9a]),
    ("p", BF16, &[2, 3], &[0x3f00, 0x3e80, 0x3f4d, 0x3e9a, 0x3f66, 0x3dcd]),
    ("q", F16, &[2, 3], &[0x3c00, 0x4100, 0xc200, 0x2e66, 0x3266, 0x3666]),
    ("r", F16, &[2, 3], &[0xc000, 0x4000, 0x4200, 0x399a, 0x3c00, 0x34cd]),
    ("u", F16, &[2, 3], &[0x3800, 0x3400, 0x3a66, 0x34cd, 0x3b33, 0x2e66]),
    ("t", I64, &[2], &[2, 0]),
    ("j", I64, &[2], &[1, -100]),
    ("w", F32, &[3], &[0x3f000000, 0x40000000, 0x3f800000]),
    ("v", F32, &[2], &[0x40400000, 0xbf800000]),
    ("i", I64, &[2, 3], &[1, 2, 3, 0, 2, 7]),
    ("s", I64, &[2], &[2, 7]),
    (
        "c",
        F32,
        &[1, 4, 2, 2],
        &[
            0, 0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000, 0x40c00000, 0x40e00000, 0x41000000,
            0x41100000, 0x41200000, 0x41300000, 0x41400000, 0x41500000, 0x41600000, 0x41700000,
        ],
    ),
    ("m2", F32, &[2, 3], &[0x3f000000, 0x3e800000, 0x3f4ccccd, 0x3e99999a, 0x3f666666, 0x3dcccccd]),
    ("vh", BF16, &[2], &[0x4040, 0xbf80]),
    ("wh", BF16, &[3], &[0x3f00, 0x4000, 0x3f80]),
    ("sg", F32, &[2, 3], &[0x3f800000, 0xbf800000, 0xbf800000, 0xbf800000, 0x3f800000, 0x3f800000]),
    ("one", F32, &[2], &[0x3f800000, 0xbf800000]),
    ("c3", F32, &[1, 2, 4], &[0, 0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000, 0x40c00000, 0x40e00000]),
    ("so", F32, &[5], &[0xbf800000, 0x3e4ccccd, 0x3f000000, 0x3f800000, 0x40200000]),
    ("sp", F32, &[2, 3], &[0xbf800000, 0x3e4ccccd, 0x40200000, 0x3e4ccccd, 0x3e99999a, 0x3ecccccd]),
];

const ROWS: &[Row] = &[
    ("special_entr.default", "self=n", F32, &[2, 3], &[0x7fc00000, 0xc0129b45, 0, 0x3eb8ee24, 0x7fc00000, 0x3ebba806]),
    ("special_entr.default", "self=p", BF16, &[2, 3], &[0x3eb1, 0x3eb1, 0x3e36, 0x3eb9, 0x3dc5, 0x3e6b]),
    ("special_entr.default", "self=u", F16, &[2, 3], &[0x358c, 0x358c, 0x31b8, 0x35c8, 0x2e13, 0x335e]),
    ("pairwise_distance.default", "x1=a x2=b", F32, &[2], &[0x40d7420b, 0x3f80a364]),
    (
        "linalg_cross.default",
        "self=a other=b",
        F32,
        &[2, 3],
        &[0x41580000, 0x40400000, 0x40e00000, 0xbeae147b, 0x3e800000, 0xbd23d70a],
    ),
    ("trapezoid.dx", "y=a dx=0.3", F32, &[2], &[0x3ee66667, 0x3e0a3d72]),
    ("trapezoid.x", "y=a x=b", F32, &[2], &[0x40d80000, 0xbe28f5c3]),
    ("cumulative_trapezoid.dx", "y=a dx=0.5", F32, &[2, 2], &[0x3f600000, 0x3f400000, 0x3d99999a, 0x3e666667]),
    ("cumulative_trapezoid.x", "y=a x=b", F32, &[2, 2], &[0x40e00000, 0x40d80000, 0x3d3851ec, 0xbe28f5c3]),
    ("nansum.default", "self=a dim=[-1]", F32, &[2], &[0x3f000000, 0x3f333334]),
    ("pairwise_distance.default", "x1=h x2=k", BF16, &[2], &[0x40d7, 0x3f81]),
    ("linalg_cross.default", "self=h other=k", BF16, &[2, 3], &[0x4158, 0x4040, 0x40e0, 0xbeae, 0x3e7f, 0xbd22]),
    ("trapezoid.dx", "y=h dx=0.3", BF16, &[2], &[0x3ee6, 0x3e0a]),
    ("trapezoid.x", "y=h x=k", BF16, &[2], &[0x40d8, 0xbe29]),
    ("cumulative_trapezoid.dx", "y=h dx=0.5", BF16, &[2, 2], &[0x3f60, 0x3f40, 0x3d9a, 0x3e67]),
    ("cumulative_trapezoid.x", "y=h x=k", BF16, &[2, 2], &[0x40e0, 0x40d8, 0x3d39, 0xbe29]),
    ("nansum.default", "self=h dim=[-1]", BF16, &[2], &[0x3f00, 0x3f33]),
    ("pairwise_distance.default", "x1=q x2=r", F16, &[2], &[0x46ba, 0x3c05]),
    ("linalg_cross.default", "self=q other=r", F16, &[2, 3], &[0x4ac0, 0x4200, 0x4700, 0xb570, 0x3400, 0xa920]),
    ("trapezoid.dx", "y=q dx=0.3", F16, &[2], &[0x3733, 0x3051]),
    ("trapezoid.x", "y=q x=r", F16, &[2], &[0x46c0, 0xb148]),
    ("cumulative_trapezoid.dx", "y=q dx=0.5", F16, &[2, 2], &[0x3b00, 0x3a00, 0x2ccc, 0x3332]),
    ("cumulative_trapezoid.x", "y=q x=r", F16, &[2, 2], &[0x4700, 0x46c0, 0x29c1, 0xb148]),
    ("nansum.default", "self=q dim=[-1]", F16, &[2], &[0x3800, 0x3999]),
    (
        "cross.default",
        "self=m other=m",
        F32,
        &[3, 3],
        &[0x31f5c290, 0xb2c28f5c, 0xb06147ae, 0, 0, 0xb1e147ae, 0, 0, 0xb16147ae],
    ),
    ("nanmean.default", "self=n dim=[-1]", F32, &[2], &[0x3fa00000, 0x3eb33334]),
    ("nansum.default", "self=n dim=[-1] keepdim=true", F32, &[2, 1], &[0x40200000, 0x3f333334]),
    (
        "rot90.default",
        "self=a",
        F32,
        &[3, 2],
        &[0xc0400000, 0x3ecccccd, 0x40200000, 0x3e4ccccd, 0x3f800000, 0x3dcccccd],
    ),
    (
        "rot90.default",
        "self=a k=2 dims=[0,1]",
        F32,
        &[2, 3],
        &[0x3ecccccd, 0x3e4ccccd, 0x3dcccccd, 0xc0400000, 0x40200000, 0x3f800000],
    ),
    (
        "rot90.default",
        "self=a k=3 dims=[0,1]",
        F32,
        &[3, 2],
        &[0x3dcccccd, 0x3f800000, 0x3e4ccccd, 0x40200000, 0x3ecccccd, 0xc0400000],
    ),
    (
        "addr.default",
        "self=h vec1=vh vec2=wh beta=0.3 alpha=0.7",
        BF16,
        &[2, 3],
        &[0x3fac, 0x409e, 0x3f98, 0xbea4, 0xbfab, 0xbf14],
    ),
    (
        "addr.default",
        "self=a vec1=v vec2=w beta=0 alpha=0.7",
        F32,
        &[2, 3],
        &[0x3f866666, 0x40866666, 0x40066666, 0xbeb33333, 0xbfb33333, 0xbf333333],
    ),
    ("isin.Tensor_Tensor", "elements=i test_elements=s", BOOL, &[2, 3], &[0, 1, 0, 0, 1, 1]),
    ("isin.Tensor_Tensor", "elements=i test_elements=s invert=true", BOOL, &[2, 3], &[1, 0, 1, 1, 0, 0]),
    ("isin.Tensor_Scalar", "elements=i test_element=2", BOOL, &[2, 3], &[0, 1, 0, 0, 1, 0]),
    ("isin.Scalar_Tensor", "element=2 test_elements=s", BOOL, &[], &[1]),
    ("isreal.default", "self=n", BOOL, &[2, 3], &[1, 1, 1, 1, 1, 1]),
    (
        "diag.default",
        "self=w diagonal=1",
        F32,
        &[4, 4],
        &[0, 0x3f000000, 0, 0, 0, 0, 0x40000000, 0, 0, 0, 0, 0x3f800000, 0, 0, 0, 0],
    ),
    ("diag.default", "self=m diagonal=-1", F32, &[2], &[0x3e99999a, 0x3f333333]),
    (
        "diag_embed.default",
        "self=a offset=-1 dim1=2 dim2=0",
        F32,
        &[4, 2, 4],
        &[
            0, 0x3f800000, 0, 0, 0, 0x3dcccccd, 0, 0, 0, 0, 0x40200000, 0, 0, 0, 0x3e4ccccd, 0, 0, 0, 0, 0xc0400000, 0,
            0, 0, 0x3ecccccd, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
    ),
    (
        "diagflat.default",
        "self=a",
        F32,
        &[6, 6],
        &[
            0x3f800000, 0, 0, 0, 0, 0, 0, 0x40200000, 0, 0, 0, 0, 0, 0, 0xc0400000, 0, 0, 0, 0, 0, 0, 0x3dcccccd, 0, 0,
            0, 0, 0, 0, 0x3e4ccccd, 0, 0, 0, 0, 0, 0, 0x3ecccccd,
        ],
    ),
    ("linalg_diagonal.default", "A=m", F32, &[3], &[0x3f000000, 0x3f666666, 0x3e4ccccd]),
    ("trace.default", "self=a", F32, &[], &[0x3f99999a]),
    (
        "unfold_copy.default",
        "self=a dimension=1 size=2 step=1",
        F32,
        &[2, 2, 2],
        &[0x3f800000, 0x40200000, 0x40200000, 0xc0400000, 0x3dcccccd, 0x3e4ccccd, 0x3e4ccccd, 0x3ecccccd],
    ),
    (
        "renorm.default",
        "self=a p=2 dim=0 maxnorm=1.5",
        F32,
        &[2, 3],
        &[0x3ebe8471, 0x3f6e258d, 0xbf8ee355, 0x3dcccccd, 0x3e4ccccd, 0x3ecccccd],
    ),
    (
        "renorm.default",
        "self=h p=2 dim=0 maxnorm=1.5",
        BF16,
        &[2, 3],
        &[0x3ebf, 0x3f6f, 0xbf8f, 0x3dcd, 0x3e4d, 0x3ecd],
    ),
    (
        "msort.default",
        "self=m",
        F32,
        &[3, 3],
        &[0x3e99999a, 0x3e800000, 0x3dcccccd, 0x3f000000, 0x3f333333, 0x3e4ccccd, 0x3f19999a, 0x3f666666, 0x3f4ccccd],
    ),
    (
        "pixel_shuffle.default",
        "self=c upscale_factor=2",
        F32,
        &[1, 1, 4, 4],
        &[
            0, 0x40800000, 0x3f800000, 0x40a00000, 0x41000000, 0x41400000, 0x41100000, 0x41500000, 0x40000000,
            0x40c00000, 0x40400000, 0x40e00000, 0x41200000, 0x41600000, 0x41300000, 0x41700000,
        ],
    ),
    (
        "pixel_unshuffle.default",
        "self=c downscale_factor=2",
        F32,
        &[1, 16, 1, 1],
        &[
            0, 0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000, 0x40c00000, 0x40e00000, 0x41000000,
            0x41100000, 0x41200000, 0x41300000, 0x41400000, 0x41500000, 0x41600000, 0x41700000,
        ],
    ),
    (
        "channel_shuffle.default",
        "self=c groups=2",
        F32,
        &[1, 4, 2, 2],
        &[
            0, 0x3f800000, 0x40000000, 0x40400000, 0x41000000, 0x41100000, 0x41200000, 0x41300000, 0x40800000,
            0x40a00000, 0x40c00000, 0x40e00000, 0x41400000, 0x41500000, 0x41600000, 0x41700000,
        ],
    ),
    ("linalg_matrix_norm.str_ord", "self=m", F32, &[], &[0x3fd45c46]),
    (
        "matrix_power.default",
        "self=m n=3",
        F32,
        &[3, 3],
        &[0x3f83645a, 0x3fb7020c, 0x3f5a1cac, 0x3f3c8b44, 0x3f9cbc6a, 0x3f0cac09, 0x3f71eb86, 0x3fb3020c, 0x3f36c8b5],
    ),
    (
        "linalg_matrix_power.default",
        "self=m n=5",
        F32,
        &[3, 3],
        &[0x400328ec, 0x404555df, 0x3fcd429b, 0x3fc36f16, 0x401616fa, 0x3f978146, 0x3ff0dfa5, 0x40368dae, 0x3fbb55f0],
    ),
    (
        "inner.default",
        "self=a other=m",
        F32,
        &[2, 3],
        &[0xbfa33334, 0x40100000, 0x3fe00000, 0x3ed70a3f, 0x3e800000, 0x3e8f5c2a],
    ),
    ("vdot.default", "self=v other=v", F32, &[], &[0x41200000]),
    (
        "kron.default",
        "self=a other=m",
        F32,
        &[6, 9],
        &[
            0x3f000000, 0x3e800000, 0x3f4ccccd, 0x3fa00000, 0x3f200000, 0x40000000, 0xbfc00000, 0xbf400000, 0xc019999a,
            0x3e99999a, 0x3f666666, 0x3dcccccd, 0x3f400000, 0x40100000, 0x3e800000, 0xbf666667, 0xc02ccccc, 0xbe99999a,
            0x3f19999a, 0x3f333333, 0x3e4ccccd, 0x3fc00000, 0x3fe00000, 0x3f000000, 0xbfe66667, 0xc0066666, 0xbf19999a,
            0x3d4ccccd, 0x3ccccccd, 0x3da3d70b, 0x3dcccccd, 0x3d4ccccd, 0x3e23d70b, 0x3e4ccccd, 0x3dcccccd, 0x3ea3d70b,
            0x3cf5c290, 0x3db851eb, 0x3c23d70b, 0x3d75c290, 0x3e3851eb, 0x3ca3d70b, 0x3df5c290, 0x3eb851eb, 0x3d23d70b,
            0x3d75c290, 0x3d8f5c29, 0x3ca3d70b, 0x3df5c290, 0x3e0f5c29, 0x3d23d70b, 0x3e75c290, 0x3e8f5c29, 0x3da3d70b,
        ],
    ),
    (
        "tensordot.default",
        "self=a other=b dims_self=[0] dims_other=[0]",
        F32,
        &[3, 3],
        &[0xbff70a3d, 0x40066666, 0x4041eb85, 0xc09b851f, 0x40a66666, 0x40f1eb85, 0x40c8f5c3, 0xc0b33333, 0xc10e147b],
    ),
    (
        "_upsample_nearest_exact1d.vec",
        "input=c3 output_size=[5] scale_factors=None",
        F32,
        &[1, 2, 5],
        &[
            0, 0x3f800000, 0x40000000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000, 0x40c00000, 0x40c00000,
            0x40e00000,
        ],
    ),
    (
        "upsample_nearest1d.vec",
        "input=c3 output_size=None scale_factors=[1.5]",
        F32,
        &[1, 2, 6],
        &[
            0, 0, 0x3f800000, 0x40000000, 0x40000000, 0x40400000, 0x40800000, 0x40800000, 0x40a00000, 0x40c00000,
            0x40c00000, 0x40e00000,
        ],
    ),
    (
        "upsample_nearest2d.vec",
        "input=c output_size=None scale_factors=[2.0,3.0]",
        F32,
        &[1, 4, 4, 6],
        &[
            0, 0, 0, 0x3f800000, 0x3f800000, 0x3f800000, 0, 0, 0, 0x3f800000, 0x3f800000, 0x3f800000, 0x40000000,
            0x40000000, 0x40000000, 0x40400000, 0x40400000, 0x40400000, 0x40000000, 0x40000000, 0x40000000, 0x40400000,
            0x40400000, 0x40400000, 0x40800000, 0x40800000, 0x40800000, 0x40a00000, 0x40a00000, 0x40a00000, 0x40800000,
            0x40800000, 0x40800000, 0x40a00000, 0x40a00000, 0x40a00000, 0x40c00000, 0x40c00000, 0x40c00000, 0x40e00000,
            0x40e00000, 0x40e00000, 0x40c00000, 0x40c00000, 0x40c00000, 0x40e00000, 0x40e00000, 0x40e00000, 0x41000000,
            0x41000000, 0x41000000, 0x41100000, 0x41100000, 0x41100000, 0x41000000, 0x41000000, 0x41000000, 0x41100000,
            0x41100000, 0x41100000, 0x41200000, 0x41200000, 0x41200000, 0x41300000, 0x41300000, 0x41300000, 0x41200000,
            0x41200000, 0x41200000, 0x41300000, 0x41300000, 0x41300000, 0x41400000, 0x41400000, 0x41400000, 0x41500000,
            0x41500000, 0x41500000, 0x41400000, 0x41400000, 0x41400000, 0x41500000, 0x41500000, 0x41500000, 0x41600000,
            0x41600000, 0x41600000, 0x41700000, 0x41700000, 0x41700000, 0x41600000, 0x41600000, 0x41600000, 0x41700000,
            0x41700000, 0x41700000,
        ],
    ),
    (
        "_upsample_nearest_exact2d.vec",
        "input=c output_size=[3,5] scale_factors=None",
        F32,
        &[1, 4, 3, 5],
        &[
            0, 0, 0x3f800000, 0x3f800000, 0x3f800000, 0x40000000, 0x40000000, 0x40400000, 0x40400000, 0x40400000,
            0x40000000, 0x40000000, 0x40400000, 0x40400000, 0x40400000, 0x40800000, 0x40800000, 0x40a00000, 0x40a00000,
            0x40a00000, 0x40c00000, 0x40c00000, 0x40e00000, 0x40e00000, 0x40e00000, 0x40c00000, 0x40c00000, 0x40e00000,
            0x40e00000, 0x40e00000, 0x41000000, 0x41000000, 0x41100000, 0x41100000, 0x41100000, 0x41200000, 0x41200000,
            0x41300000, 0x41300000, 0x41300000, 0x41200000, 0x41200000, 0x41300000, 0x41300000, 0x41300000, 0x41400000,
            0x41400000, 0x41500000, 0x41500000, 0x41500000, 0x41600000, 0x41600000, 0x41700000, 0x41700000, 0x41700000,
            0x41600000, 0x41600000, 0x41700000, 0x41700000, 0x41700000,
        ],
    ),
    (
        "upsample_nearest2d.vec",
        "input=c output_size=[5,4] scale_factors=None",
        F32,
        &[1, 4, 5, 4],
        &[
            0, 0, 0x3f800000, 0x3f800000, 0, 0, 0x3f800000, 0x3f800000, 0, 0, 0x3f800000, 0x3f800000, 0x40000000,
            0x40000000, 0x40400000, 0x40400000, 0x40000000, 0x40000000, 0x40400000, 0x40400000, 0x40800000, 0x40800000,
            0x40a00000, 0x40a00000, 0x40800000, 0x40800000, 0x40a00000, 0x40a00000, 0x40800000, 0x40800000, 0x40a00000,
            0x40a00000, 0x40c00000, 0x40c00000, 0x40e00000, 0x40e00000, 0x40c00000, 0x40c00000, 0x40e00000, 0x40e00000,
            0x41000000, 0x41000000, 0x41100000, 0x41100000, 0x41000000, 0x41000000, 0x41100000, 0x41100000, 0x41000000,
            0x41000000, 0x41100000, 0x41100000, 0x41200000, 0x41200000, 0x41300000, 0x41300000, 0x41200000, 0x41200000,
            0x41300000, 0x41300000, 0x41400000, 0x41400000, 0x41500000, 0x41500000, 0x41400000, 0x41400000, 0x41500000,
            0x41500000, 0x41400000, 0x41400000, 0x41500000, 0x41500000, 0x41600000, 0x41600000, 0x41700000, 0x41700000,
            0x41600000, 0x41600000, 0x41700000, 0x41700000,
        ],
    ),
    (
        "upsample_nearest2d.vec",
        "input=c output_size=[6,5] scale_factors=None",
        F32,
        &[1, 4, 6, 5],
        &[
            0, 0, 0, 0x3f800000, 0x3f800000, 0, 0, 0, 0x3f800000, 0x3f800000, 0, 0, 0, 0x3f800000, 0x3f800000,
            0x40000000, 0x40000000, 0x40000000, 0x40400000, 0x40400000, 0x40000000, 0x40000000, 0x40000000, 0x40400000,
            0x40400000, 0x40000000, 0x40000000, 0x40000000, 0x40400000, 0x40400000, 0x40800000, 0x40800000, 0x40800000,
            0x40a00000, 0x40a00000, 0x40800000, 0x40800000, 0x40800000, 0x40a00000, 0x40a00000, 0x40800000, 0x40800000,
            0x40800000, 0x40a00000, 0x40a00000, 0x40c00000, 0x40c00000, 0x40c00000, 0x40e00000, 0x40e00000, 0x40c00000,
            0x40c00000, 0x40c00000, 0x40e00000, 0x40e00000, 0x40c00000, 0x40c00000, 0x40c00000, 0x40e00000, 0x40e00000,
            0x41000000, 0x41000000, 0x41000000, 0x41100000, 0x41100000, 0x41000000, 0x41000000, 0x41000000, 0x41100000,
            0x41100000, 0x41000000, 0x41000000, 0x41000000, 0x41100000, 0x41100000, 0x41200000, 0x41200000, 0x41200000,
            0x41300000, 0x41300000, 0x41200000, 0x41200000, 0x41200000, 0x41300000, 0x41300000, 0x41200000, 0x41200000,
            0x41200000, 0x41300000, 0x41300000, 0x41400000, 0x41400000, 0x41400000, 0x41500000, 0x41500000, 0x41400000,
            0x41400000, 0x41400000, 0x41500000, 0x41500000, 0x41400000, 0x41400000, 0x41400000, 0x41500000, 0x41500000,
            0x41600000, 0x41600000, 0x41600000, 0x41700000, 0x41700000, 0x41600000, 0x41600000, 0x41600000, 0x41700000,
            0x41700000, 0x41600000, 0x41600000, 0x41600000, 0x41700000, 0x41700000,
        ],
    ),
    (
        "addr.default",
        "self=a vec1=v vec2=w beta=0.3 alpha=0.7",
        F32,
        &[2, 3],
        &[0x3faccccc, 0x409e6666, 0x3f999998, 0xbea3d70a, 0xbfab851e, 0xbf147ae1],
    ),
    ("dist.default", "self=a other=b p=3.0", F32, &[], &[0x40c7ebf5]),
    ("frobenius_norm.dim", "self=m dim=[-1]", F32, &[3], &[0x3f79d896, 0x3f74355c, 0x3f71828a]),
    ("addmv.default", "self=w mat=m vec=w beta=0.5 alpha=2.0", F32, &[3], &[0x40566666, 0x40a33333, 0x4089999a]),
    (
        "fliplr.default",
        "self=a",
        F32,
        &[2, 3],
        &[0xc0400000, 0x40200000, 0x3f800000, 0x3ecccccd, 0x3e4ccccd, 0x3dcccccd],
    ),
    (
        "flipud.default",
        "self=a",
        F32,
        &[2, 3],
        &[0x3dcccccd, 0x3e4ccccd, 0x3ecccccd, 0x3f800000, 0x40200000, 0xc0400000],
    ),
    ("diff.default", "self=a n=2", F32, &[2, 1], &[0xc0e00000, 0x3dcccccd]),
    ("searchsorted.Tensor", "sorted_sequence=so self=a", I64, &[2, 3], &[3, 4, 0, 1, 1, 2]),
    ("searchsorted.Tensor", "sorted_sequence=so self=a right=true out_int32=true", I32, &[2, 3], &[4, 5, 0, 1, 2, 2]),
    ("searchsorted.Tensor", "sorted_sequence=sp self=a side=right", I64, &[2, 3], &[2, 3, 0, 0, 1, 3]),
    (
        "adaptive_avg_pool2d.default",
        "self=c output_size=[1,1]",
        F32,
        &[1, 4, 1, 1],
        &[0x3fc00000, 0x40b00000, 0x41180000, 0x41580000],
    ),
    ("adaptive_avg_pool1d.default", "self=c3 output_size=[1]", F32, &[1, 2, 1], &[0x3fc00000, 0x40b00000]),
    (
        "feature_dropout.default",
        "input=c p=0.5 train=false",
        F32,
        &[1, 4, 2, 2],
        &[
            0, 0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000, 0x40c00000, 0x40e00000, 0x41000000,
            0x41100000, 0x41200000, 0x41300000, 0x41400000, 0x41500000, 0x41600000, 0x41700000,
        ],
    ),
    (
        "expand_copy.default",
        "self=w size=[2,3]",
        F32,
        &[2, 3],
        &[0x3f000000, 0x40000000, 0x3f800000, 0x3f000000, 0x40000000, 0x3f800000],
    ),
    (
        "permute_copy.default",
        "self=a dims=[1,0]",
        F32,
        &[3, 2],
        &[0x3f800000, 0x3dcccccd, 0x40200000, 0x3e4ccccd, 0xc0400000, 0x3ecccccd],
    ),
    (
        "slice_copy.Tensor",
        "self=a dim=1 start=1 end=3",
        F32,
        &[2, 2],
        &[0x40200000, 0xc0400000, 0x3e4ccccd, 0x3ecccccd],
    ),
    ("select_copy.int", "self=a dim=1 index=2", F32, &[2], &[0xc0400000, 0x3ecccccd]),
    (
        "view_copy.default",
        "self=a size=[3,2]",
        F32,
        &[3, 2],
        &[0x3f800000, 0x40200000, 0xc0400000, 0x3dcccccd, 0x3e4ccccd, 0x3ecccccd],
    ),
];

fn made((_, dtype): Kind, shape: &[i64], bits: &[i64]) -> Tensor {
    let extents: Vec<usize> = shape.iter().map(|&n| usize::try_from(n).expect("small")).collect();
    let width = if dtype == DType::Bool { 1 } else { dtype.bits() as usize / 8 };
    let bytes: Vec<u8> = bits.iter().flat_map(|v| v.to_le_bytes().into_iter().take(width)).collect();
    Tensor::from_bytes(dtype, &extents, &bytes).expect("bytes of its type")
}

/// The operand of that name.
fn operand(name: &str) -> Option<&'static Operand> {
    OPERANDS.iter().chain(windows::OPERANDS).find(|operand| operand.0 == name)
}

/// The operands of that name, or of those in parentheses.
fn operands(value: &str) -> impl Iterator<Item = &'static Operand> {
    value.trim_matches(['(', ')']).split(',').filter_map(operand)
}

/// An argument as a file has it.
fn json(value: &str) -> String {
    let kind = match value {
        "None" => return r#"{"as_none":true}"#.to_owned(),
        "true" | "false" => "as_bool",
        "right" | "fro" => return format!(r#"{{"as_string":"{value}"}}"#),
        _ if value.starts_with('[') && value.contains('.') => "as_floats",
        _ if value.starts_with('[') => "as_ints",
        _ if value.contains(['.', 'e']) => "as_float",
        _ => "as_int",
    };
    format!(r#"{{"{kind}":{value}}}"#)
}

/// An argument of several tensors as a file has it.
fn tensors(name: &str, of: &[&str]) -> String {
    let list: Vec<String> = of.iter().map(|name| format!(r#"{{"name":"{name}"}}"#)).collect();
    argument(name, &format!(r#"{{"as_tensors":[{}]}}"#, list.join(",")))
}

/// Checks that ops are taken apart into what allows their results.
#[track_caller]
pub(super) fn check(rows: &[Row]) {
    let complaints: Vec<String> = rows
        .iter()
        .filter_map(|&(op, given, kind, shape, bits)| complaint(op, given, &[(kind, shape, bits)]))
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// What is wrong with the results of an op, given by dtype, shape and bits.
pub(super) fn complaint(target: &str, arguments: &str, expected: &[(Kind, &[i64], &[i64])]) -> Option<String> {
    let given: Vec<(&str, &str)> = arguments.split(' ').map(|a| a.split_once('=').expect("NAME=VALUE")).collect();
    let mut used: Vec<_> = given.iter().flat_map(|(_, value)| operands(value)).collect();
    used.sort_unstable_by_key(|operand| operand.0);
    used.dedup_by_key(|operand| operand.0);
    let inputs: Vec<(&str, i64, &[i64])> = used.iter().map(|(name, kind, shape, _)| (*name, kind.0, *shape)).collect();
    let one = |(name, value): &(&str, &str)| match value.strip_prefix('(') {
        Some(list) => tensors(name, &list.trim_end_matches(')').split(',').collect::<Vec<_>>()),
        None if operand(value).is_some() => tensor(name, value),
        None => argument(name, &json(value)),
    };
    let list: Vec<String> = given.iter().map(one).collect();
    let node = call(&format!("aten.{target}"), &list);
    let about = format!("{target} {arguments}");
    let names = ["result", "other"];
    let results: Vec<_> =
        names.into_iter().zip(expected).map(|(name, (kind, shape, _))| (name, kind.0, *shape)).collect();
    let graph = one_node(&inputs, &node, &results).unwrap_or_else(|e| panic!("{about}: {e}"));
    crate::verify::verify(&graph).unwrap_or_else(|e| panic!("{about}: {e:?}"));
    assert!(super::opaque_targets(&graph).is_empty(), "{about}: {graph}");
    let tensors: Vec<Tensor> = used.iter().map(|(_, kind, shape, bits)| made(*kind, shape, bits)).collect();
    let intervals = interp::enclose(&graph, &tensors, &Symbols::new()).expect("has a value");
    assert_eq!(intervals.len(), expected.len(), "{about}");
    intervals.iter().zip(expected).find_map(|(interval, (kind, shape, bits))| {
        let report = interval.check(&made(*kind, shape, bits)).expect("of one type");
        (!report.is_ok()).then(|| format!("{about}: {report:?}\n{interval:?}"))
    })
}

#[test]
fn what_core_aten_takes_apart_is_that_of_the_framework() {
    check(ROWS);
}
