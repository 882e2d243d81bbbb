package openssl

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/keyturn/keyturn/internal/probe/verdict"
)

// Numbers of OpenSSL's verification errors (x509_vfy.h).
const (
	noIssuerCertificate      = 2
	notYetValid              = 9
	hasExpired               = 10
	selfSignedLeaf           = 18
	selfSignedInChain        = 19
	noLocalIssuerCertificate = 20
	unverifiableLeaf         = 21
	chainTooLong             = 22
	pathLengthExceeded       = 25
	untrusted                = 27
	hostNameMismatch         = 62
)

// judge reads what the program said when no request was completed. What it does
// not know counts as a connection that broke off: again and again, that is a
// refusal, too.
func judge(said string) error {
	told := &verdict.Error{Verdict: verdict.Interrupted, Reason: verdict.HandshakeReset, Detail: firstLine(said)}
	if number, found := find(`verify error:num=(\d+):`, said); found {
		told.Verdict, told.Reason = verdict.Refused, unverified(number)
	} else if number, found := find(`SSL alert number (\d+)`, said); found {
		told.Verdict, told.Reason = verdict.Refused, verdict.OfAlert(number)
	} else if strings.Contains(said, "wrong version number") {
		told.Verdict, told.Reason = verdict.Refused, verdict.NotTLS
	} else if strings.Contains(said, "No such file") || strings.Contains(said, "Could not read") || strings.Contains(said, "no certificate or crl found") {
		told.Verdict, told.Reason = verdict.Refused, verdict.NoTrust
	}
	return told
}

func find(pattern, text string) (uint64, bool) {
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		return 0, false
	}
	number, err := strconv.ParseUint(found[1], 10, 16)
	return number, err == nil
}

func unverified(number uint64) verdict.Reason {
	switch number {
	case noIssuerCertificate, selfSignedLeaf, selfSignedInChain, noLocalIssuerCertificate, unverifiableLeaf, untrusted:
		return verdict.UnknownAuthority
	case notYetValid, hasExpired:
		return verdict.Expired
	case chainTooLong, pathLengthExceeded:
		return verdict.ChainTooLong
	case hostNameMismatch:
		return verdict.NameMismatch
	default:
		return verdict.InvalidCertificate
	}
}

// firstLine is for people; the depth of the certificate stands before the error.
func firstLine(said string) string {
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "depth=") {
			return line
		}
	}
	return "it said nothing"
}
