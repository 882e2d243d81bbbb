package model

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	kafkav1 "github.com/keyturn/keyturn/api/kafka/v1"
	"github.com/keyturn/keyturn/internal/pki"
)

// Entries of the Secret of a user with a password.
const (
	LoginPasswordEntry = "password"
	// JAASEntry is the whole line that a Java client needs.
	JAASEntry = "sasl.jaas.config"
)

// PasswordReference is the entry that the password of a user comes from, nil when the user operator generates one.
func PasswordReference(user *kafkav1.KafkaUser) *kafkav1.SecretKeyReference {
	if !hasPassword(user) || user.Spec.Authentication.Password == nil {
		return nil
	}
	return &user.Spec.Authentication.Password.ValueFrom.SecretKeyRef
}

// decidePassword says what the Secret of a user with a password holds, and which password Kafka shall accept.
func (o Observed) decidePassword(d *Decision) {
	if !o.isReady(d) {
		return
	}
	password, problem := o.password()
	if problem == nil {
		problem = o.unusable(password)
	}
	if problem != nil {
		d.Problem = problem
		return
	}
	d.Password = password
	d.Data = map[string][]byte{LoginPasswordEntry: []byte(password), JAASEntry: []byte(jaas(o.User.Name, password))}
}

// password is the one that the user names, or else the one in use, or else a new one.
func (o Observed) password() (string, *Remark) {
	reference := PasswordReference(o.User)
	if reference == nil {
		if stored := o.stored()[LoginPasswordEntry]; len(stored) > 0 {
			return string(stored), nil
		}
		password, err := pki.NewLongPassword()
		if err != nil {
			return "", &Remark{InvalidPassword, fmt.Sprintf("No password can be generated: %s. The user has no credentials. It is tried again.", err)}
		}
		return password, nil
	}
	const consequence = "The password of the user is not changed. "
	if o.PasswordSecret == nil {
		return "", &Remark{MissingPassword, fmt.Sprintf("Secret %s does not exist in namespace %s. %s"+
			"Create it with the password under the key %s, or correct spec.authentication.password.", reference.Name, o.User.Namespace, consequence, reference.Key)}
	}
	value := o.PasswordSecret.Data[reference.Key]
	if len(value) == 0 {
		return "", &Remark{MissingPassword, fmt.Sprintf("Secret %s has no value under the key %s. %s"+
			"Add the password to it, or correct spec.authentication.password.", reference.Name, reference.Key, consequence)}
	}
	return string(value), nil
}

// unusable refuses a password that a line of a configuration cannot hold.
func (o Observed) unusable(password string) *Remark {
	if utf8.ValidString(password) && !strings.ContainsFunc(password, unicode.IsControl) {
		return nil
	}
	secret, key := o.SecretName, LoginPasswordEntry
	if reference := PasswordReference(o.User); reference != nil {
		secret, key = reference.Name, reference.Key
	}
	return &Remark{InvalidPassword, fmt.Sprintf("The password under the key %s of Secret %s has line breaks, other control characters, or is no UTF-8. "+
		"The password of the user is not changed. Replace it by one line of text without a line break at its end.", key, secret)}
}

// jaas is the configuration of a Java client, in which quotes and backslashes of values are escaped.
func jaas(username, password string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	return `org.apache.kafka.common.security.scram.ScramLoginModule required username="` + escape.Replace(username) +
		`" password="` + escape.Replace(password) + `";`
}

// checkListeners warns of a password that no listener asks for.
func (o Observed) checkListeners(d *Decision) {
	if o.Kafka == nil || !hasPassword(o.User) {
		return
	}
	for _, listener := range o.Kafka.Spec.Kafka.Listeners {
		if listener.Authentication != nil && listener.Authentication.Type == kafkav1.AuthenticationSCRAM {
			return
		}
	}
	d.warn(MissingListener, fmt.Sprintf("Kafka %s has no listener with authentication scram-sha-512. The user has a password and cannot connect. "+
		"Add such a listener to spec.kafka.listeners of the Kafka, or change spec.authentication of the user.", o.Kafka.Name))
}
