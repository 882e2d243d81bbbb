#!/bin/sh
# A pod that knows two annotations and nothing else of the operator: it makes a key, asks for certificates, and waits
# for them. POD is the URL of its own pod, NAME its name, DIR a directory for what it makes.
set -eu
umask 077
cd "$DIR"

openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out member.key 2>/dev/null
openssl req -new -key member.key -subj "/CN=$NAME" -out member.csr

request=$(base64 <member.csr | tr -d '\n')
curl -sSf -o asked.json -X PATCH -H 'Content-Type: application/merge-patch+json' \
  -d '{"metadata":{"annotations":{"kubeEtcdCSR":"'"$request"'"}}}' "$POD"

until grep -o '"kubeEtcdCert": *"[^"]*"' pod.json >answer 2>/dev/null; do
  curl -sSf -o pod.json "$POD"
  sleep 0.1
done
cut -d'"' -f4 answer | base64 -d >both.crt

# The first certificate is for peers, the second one for clients.
awk '/BEGIN CERTIFICATE/ {n++} {print > (n == 1 ? "peer.crt" : "client.crt")}' both.crt
for plane in peer client; do
  openssl x509 -in "$plane.crt" -noout -pubkey >"$plane.pub"
  openssl pkey -in member.key -pubout | cmp - "$plane.pub"
  openssl verify -x509_strict -partial_chain -CAfile "$plane-ca.crt" -verify_hostname "$HOST" "$plane.crt"
done
