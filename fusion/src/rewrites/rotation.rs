//! Spellings of rotations, as `rope_neox` and `rope_half_table` spell them: lanes that are not rotated are joined in a
//! step of their own, and turning back is turning by the negative angle.

use super::rewrites;

rewrites! {
    /// Lanes behind a rotated pair are joined to its result.
    exact rotated_before_rest:
        "(a: float, b, c, s, rest) p = mul a, c; q = mul b, s; l = sub p, q; u = mul b, c; v = mul a, s; h = add u, v;
         z = cat l, h, rest {$k}; yield z"
        => "(a, b, c, s, rest) p = mul a, c; q = mul b, s; l = sub p, q; u = mul b, c; v = mul a, s; h = add u, v;
            y = cat l, h {$k}; z = cat y, rest {$k}; yield z";
    /// Lanes in front of a rotated pair are joined to its result.
    exact rotated_behind_rest:
        "(a: float, b, c, s, rest) p = mul a, c; q = mul b, s; l = sub p, q; u = mul b, c; v = mul a, s; h = add u, v;
         z = cat rest, l, h {$k}; yield z"
        => "(a, b, c, s, rest) p = mul a, c; q = mul b, s; l = sub p, q; u = mul b, c; v = mul a, s; h = add u, v;
            y = cat l, h {$k}; z = cat rest, y {$k}; yield z";
    /// Halves turned back are halves turned by the negative angle.
    exact halves_turned_back:
        "(a: float, b, c, s) p = mul a, c; q = mul b, s; l = add p, q; u = mul b, c; v = mul a, s; h = sub u, v;
         z = cat l, h {$k}; yield z"
        => "(a, b, c, s) n = neg s; p = mul a, c; q = mul b, n; l = sub p, q; u = mul b, c; v = mul a, n; h = add u, v;
            z = cat l, h {$k}; yield z";
    /// Neighbours turned back are neighbours turned by the negative angle.
    exact neighbours_turned_back:
        "(a: float, b, c, s) p = mul a, c; q = mul b, s; l = add p, q; u = mul b, c; v = mul a, s; h = sub u, v;
         f = reshape l {$r}; g = reshape h {$r}; z = cat f, g {$k}; yield z"
        => "(a, b, c, s) n = neg s; p = mul a, c; q = mul b, n; l = sub p, q; u = mul b, c; v = mul a, n; h = add u, v;
            f = reshape l {$r}; g = reshape h {$r}; z = cat f, g {$k}; yield z";
    /// Taking away the turned lanes is adding them under the negative angle.
    exact turned_away:
        "(a: float, b, s, y) n = neg b; t = cat n, a {$k}; v = mul t, s; z = sub y, v; yield z"
        => "(a, b, s, y) n = neg b; t = cat n, a {$k}; m = neg s; v = mul t, m; z = add y, v; yield z";
    /// Lanes turned the other way are lanes turned under the negative angle.
    exact turned_other_way:
        "(a: float, b, s, y) n = neg a; t = cat b, n {$k}; v = mul t, s; z = add y, v; yield z"
        => "(a, b, s, y) n = neg b; t = cat n, a {$k}; m = neg s; v = mul t, m; z = add y, v; yield z";
    /// Taking away lanes turned the other way is adding them turned.
    exact turned_back_away:
        "(a: float, b, s, y) n = neg a; t = cat b, n {$k}; v = mul t, s; z = sub y, v; yield z"
        => "(a, b, s, y) n = neg b; t = cat n, a {$k}; v = mul t, s; z = add y, v; yield z";
}
