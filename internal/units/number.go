package units

import (
	"math/big"
	"strconv"
	"strings"
)

// maxNumberText bounds the work of one conversion; no quantity in range needs
// as many characters.
const maxNumberText = 64

// number is an unsigned decimal, kept as it was written.
type number struct {
	text     string   // as written
	mantissa *big.Int // all its digits
	decimals int      // how many of them stand behind the point
}

// split parts a word into its number and its unit and checks the number. A
// space between them is allowed.
func split(input string) (number, string, error) {
	word := strings.TrimSpace(input)
	if word == "" {
		return number{}, "", fail(ErrSyntax, "nothing is written where a number is needed")
	}
	if word[0] == '-' || word[0] == '+' {
		return number{}, "", fail(ErrSyntax, "%q has a sign: write a number without one", input)
	}
	end := strings.IndexFunc(word, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
	if end < 0 {
		end = len(word)
	}
	text, unit := word[:end], strings.TrimSpace(word[end:])
	if text == "" {
		return number{}, "", fail(ErrSyntax, "%q does not begin with a number", input)
	}
	if len(text) > maxNumberText {
		return number{}, "", fail(ErrRange, "a number of %d characters is too long", len(text))
	}
	whole, fraction, point := strings.Cut(text, ".")
	if whole == "" || point && (fraction == "" || strings.Contains(fraction, ".")) {
		return number{}, "", fail(ErrSyntax, "%q is not a number: write digits, with at most one point between them", text)
	}
	if len(whole) > 1 && whole[0] == '0' {
		return number{}, "", leadingZero(input, whole, word[len(whole):])
	}
	mantissa, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok {
		return number{}, "", fail(ErrSyntax, "%q is not a number", text)
	}
	return number{text, mantissa, len(fraction)}, unit, nil
}

// leadingZero refuses 010, which is ten to a person and eight to C and YAML.
func leadingZero(input, digits, rest string) error {
	decimal := strings.TrimLeft(digits, "0")
	if decimal == "" {
		decimal = "0"
	}
	if strings.ContainsFunc(rest, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return fail(ErrUnclear, "%q begins with a zero: leave it out", input) // rest is not for a terminal
	}
	octal, err := strconv.ParseUint(digits, 8, 64)
	if err != nil || rest != "" && rest[0] == '.' || decimal == strconv.FormatUint(octal, 10) {
		return fail(ErrUnclear, "%q begins with a zero: write %s%s", input, decimal, rest)
	}
	return unclear(input, decimal+rest, strconv.FormatUint(octal, 10)+rest+" (octal)")
}

// scale is floor(number × mul / div), and whether that is exact.
func (n number) scale(mul, div uint64) (value *big.Int, exact bool) {
	product := new(big.Int).Mul(n.mantissa, new(big.Int).SetUint64(mul))
	divisor := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n.decimals)), nil)
	divisor.Mul(divisor, new(big.Int).SetUint64(div))
	quotient, rest := product.QuoRem(product, divisor, new(big.Int))
	return quotient, rest.Sign() == 0
}

// fits returns value as a uint64 of at most highest.
func fits(value *big.Int, highest uint64) (uint64, bool) {
	return value.Uint64(), value.IsUint64() && value.Uint64() <= highest
}

const (
	kilo = 1_000
	mega = 1_000_000
	giga = 1_000_000_000
	tera = 1_000_000_000_000
	kibi = 1 << 10
	mebi = 1 << 20
	gibi = 1 << 30
	tebi = 1 << 40
)

// prefixes are the multipliers before bit and B, in lower case.
var prefixes = map[string]uint64{
	"": 1, "k": kilo, "m": mega, "g": giga, "t": tera,
	"ki": kibi, "mi": mebi, "gi": gibi, "ti": tebi,
}

// byteSpelling is a prefix as it is written before B: k, M, G, T, Ki, Mi …
func byteSpelling(prefix string) string {
	switch {
	case prefix == "k", prefix == "":
		return prefix
	default:
		return strings.ToUpper(prefix[:1]) + prefix[1:]
	}
}

// cutPrefix takes one of the endings off a lower-case word and returns the
// prefix before it, where that is one.
func cutPrefix(word string, endings ...string) (prefix string, ok bool) {
	for _, ending := range endings {
		if before, found := strings.CutSuffix(word, ending); found {
			if _, known := prefixes[before]; known {
				return before, true
			}
		}
	}
	return "", false
}
