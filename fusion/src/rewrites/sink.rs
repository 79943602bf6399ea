//! Layout sinks through elementwise functions: what broadcasting repeats is computed once, and the sum of two values
//! that are reshaped alike is reshaped.
//!
//! Only what can take no composite apart is here. A slice that sank would compute more, and one that rose, as a
//! permutation or a concatenation that sank, would part the two readers of one value that norms and rotations have.

use super::rewrites;

rewrites! {
    /// A negative of what is repeated is repeated.
    exact neg_of_expanded: "(x: float) e = expand x {$b}; z = neg e; yield z" => "(x) y = neg x; z = expand y {$b}; yield z";
    /// A magnitude of what is repeated is repeated.
    exact abs_of_expanded: "(x: float) e = expand x {$b}; z = abs e; yield z" => "(x) y = abs x; z = expand y {$b}; yield z";
    /// A power of what is repeated is repeated.
    exact exp_of_expanded: "(x: float) e = expand x {$b}; z = exp e; yield z" => "(x) y = exp x; z = expand y {$b}; yield z";
    /// A root of what is repeated is repeated.
    exact sqrt_of_expanded: "(x: float) e = expand x {$b}; z = sqrt e; yield z" => "(x) y = sqrt x; z = expand y {$b}; yield z";
    /// A reciprocal root of what is repeated is repeated.
    exact rsqrt_of_expanded: "(x: float) e = expand x {$b}; z = rsqrt e; yield z" => "(x) y = rsqrt x; z = expand y {$b}; yield z";
    /// A sine of what is repeated is repeated.
    exact sin_of_expanded: "(x: float) e = expand x {$b}; z = sin e; yield z" => "(x) y = sin x; z = expand y {$b}; yield z";
    /// A cosine of what is repeated is repeated.
    exact cos_of_expanded: "(x: float) e = expand x {$b}; z = cos e; yield z" => "(x) y = cos x; z = expand y {$b}; yield z";
    /// A conversion of what is repeated is repeated.
    exact cast_of_expanded:
        "(x) e = expand x {$b}; z = cast e {$a}; yield z" => "(x) y = cast x {$a}; z = expand y {$b}; yield z";
    /// A sum with what is repeated is repeated.
    exact add_of_expanded: "(x: float, y) e = expand y {$b}; z = add x, e; yield z" => "(x, y) p = add x, y; z = expand p {$b}; yield z";
    /// A product with what is repeated is repeated.
    exact mul_of_expanded: "(x: float, y) e = expand y {$b}; z = mul x, e; yield z" => "(x, y) p = mul x, y; z = expand p {$b}; yield z";
    /// The larger with what is repeated is repeated.
    exact max_of_expanded: "(x: float, y) e = expand y {$b}; z = max x, e; yield z" => "(x, y) p = max x, y; z = expand p {$b}; yield z";
    /// The smaller with what is repeated is repeated.
    exact min_of_expanded: "(x: float, y) e = expand y {$b}; z = min x, e; yield z" => "(x, y) p = min x, y; z = expand p {$b}; yield z";
    /// A difference with what is repeated is repeated.
    exact sub_of_expanded_left:
        "(x: float, y) e = expand x {$b}; z = sub e, y; yield z" => "(x, y) p = sub x, y; z = expand p {$b}; yield z";
    /// A difference with what is repeated is repeated.
    exact sub_of_expanded_right:
        "(x: float, y) e = expand y {$b}; z = sub x, e; yield z" => "(x, y) p = sub x, y; z = expand p {$b}; yield z";
    /// A quotient with what is repeated is repeated.
    exact div_of_expanded_left:
        "(x: float, y) e = expand x {$b}; z = div e, y; yield z" => "(x, y) p = div x, y; z = expand p {$b}; yield z";
    /// A quotient with what is repeated is repeated.
    exact div_of_expanded_right:
        "(x: float, y) e = expand y {$b}; z = div x, e; yield z" => "(x, y) p = div x, y; z = expand p {$b}; yield z";
    /// A sum of values that are reshaped alike is reshaped.
    exact add_of_reshaped:
        "(x: float, y) a = reshape x {$b}; c = reshape y {$b}; z = add a, c; yield z"
        => "(x, y) p = add x, y; z = reshape p {$b}; yield z";
    /// A difference of values that are reshaped alike is reshaped.
    exact sub_of_reshaped:
        "(x: float, y) a = reshape x {$b}; c = reshape y {$b}; z = sub a, c; yield z"
        => "(x, y) p = sub x, y; z = reshape p {$b}; yield z";
}
