// Package agentcli holds the subcommands of the keyturn-agent binary, which pods run.
// Every pod pays for what it imports. Nothing imports it but main.
package agentcli
