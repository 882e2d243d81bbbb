package trust

// interim are the keys of which a member may be given a leaf that it needs before its issuer offers one of what is
// planned. A leaf of the key that it presents is one: that stays verified by all while anything presents it.
func (v *view) interim(m *Member, planned Identity) []KeyID {
	now := m.Published.Identity.Signer
	if v.Policy.Issuance != Offered || now == "" || now == planned.Signer {
		return nil
	}
	return []KeyID{now}
}
