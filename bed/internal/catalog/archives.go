package catalog

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/keyturn/keyturn/bed/internal/build"
	"github.com/keyturn/keyturn/bed/internal/confine"
	"github.com/keyturn/keyturn/bed/internal/images"
)

// Archives of loaded classes make a Java program start in about half the time. The first two are named as in the
// official image; the last is the one that Java itself looks for, which the others stand on.
const (
	brokerArchive  = kafkaHome + "/kafka.jsa"
	storageArchive = kafkaHome + "/storage.jsa"
	javaArchive    = javaHome + "/lib/server/classes.jsa"
)

const (
	// trainingFolder holds the settings and keys of the broker that is started to see which classes it loads.
	trainingFolder = "/training"
	trainingLimit  = 3 * time.Minute
	// started is what a broker says when it serves.
	started = "Kafka Server started"
)

//go:embed training.properties
var trainingSettings string

// archives starts Kafka once below the image's own root and returns the layer with what Java recorded. Without root
// there is no such layer: the image works all the same, it only starts more slowly.
func archives(ctx context.Context, builder build.Builder, version string, layers [][]images.File) ([]images.File, error) {
	if os.Geteuid() != 0 {
		return []images.File{}, nil
	}
	dir, err := builder.Do(ctx, build.Step{
		Name:   "kafka-archives-" + version,
		Inputs: []string{fmt.Sprintf("%+v", layers), trainingSettings},
		Make: func(ctx context.Context, dir string) error {
			ctx, cancel := context.WithTimeout(ctx, trainingLimit)
			defer cancel()
			return record(ctx, dir, layers)
		},
	})
	if err != nil {
		return nil, err
	}
	var files []images.File
	for _, archive := range []string{javaArchive, brokerArchive, storageArchive} {
		files = append(files, images.File{Path: archive, Mode: 0o644, Source: filepath.Join(dir, filepath.Base(archive))})
	}
	return files, nil
}

// record lays the image out, runs the three recordings and keeps their results.
func record(ctx context.Context, dir string, layers [][]images.File) error {
	root, err := os.MkdirTemp(dir, "root-")
	if err != nil {
		return err
	}
	if err := images.LayOut(root, layers...); err != nil {
		return err
	}
	if err := writeTraining(filepath.Join(root, trainingFolder)); err != nil {
		return fmt.Errorf("writing the settings of the training: %w", err)
	}
	classPath, err := sortedJars(root)
	if err != nil {
		return err
	}
	java := trainer{root: root, classPath: classPath}
	if err := java.run(ctx, "-Xshare:dump"); err != nil {
		return fmt.Errorf("recording Java's own classes: %w", err)
	}
	settings := filepath.Join(trainingFolder, "server.properties")
	if err := java.run(ctx, java.recording(storageArchive, "kafka.tools.StorageTool",
		"format", "--cluster-id", "MkU3OEVBNTcwNTJENDM2Qk", "--config", settings)...); err != nil {
		return fmt.Errorf("recording the storage tool: %w", err)
	}
	if err := java.serve(ctx, java.recording(brokerArchive, "kafka.Kafka", settings)...); err != nil {
		return fmt.Errorf("recording the broker: %w", err)
	}
	for _, archive := range []string{javaArchive, brokerArchive, storageArchive} {
		if err := os.Rename(filepath.Join(root, archive), filepath.Join(dir, filepath.Base(archive))); err != nil {
			return fmt.Errorf("keeping the recording: %w", err)
		}
	}
	return os.RemoveAll(root)
}

// sortedJars is the class path that an archive is good for: Java refuses it for any other order.
func sortedJars(root string) (string, error) {
	jars, err := filepath.Glob(filepath.Join(root, kafkaHome, "libs", "*.jar"))
	if err != nil {
		return "", err
	}
	for i, jar := range jars {
		jars[i] = strings.TrimPrefix(jar, root)
	}
	slices.Sort(jars)
	return strings.Join(jars, ":"), nil
}

// trainer runs the image's Java.
type trainer struct {
	root      string
	classPath string
}

func (t trainer) recording(archive, class string, args ...string) []string {
	return append([]string{
		"-XX:ArchiveClassesAtExit=" + archive, "-Xlog:cds=off", "-Xlog:cds+dynamic=off",
		"-Dlog4j2.configurationFile=" + kafkaHome + "/config/log4j2.yaml", "-Dlog4j.configuration=file:" + kafkaHome + "/config/log4j.properties",
		"-cp", t.classPath, class,
	}, args...)
}

func (t trainer) run(ctx context.Context, args ...string) error {
	command, err := confine.Command(ctx, t.root, append([]string{javaHome + "/bin/java"}, args...)...)
	if err != nil {
		return err
	}
	said, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

// serve runs a broker until it serves and then asks it to end; Java records as it ends.
func (t trainer) serve(ctx context.Context, args ...string) error {
	command, err := confine.Command(ctx, t.root, append([]string{javaHome + "/bin/java"}, args...)...)
	if err != nil {
		return err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	command.Stderr = command.Stdout
	if err := command.Start(); err != nil {
		return err
	}
	var last []string
	serving := false
	for lines := bufio.NewScanner(output); lines.Scan(); {
		last = append(last[max(0, len(last)-20):], lines.Text())
		if !serving && strings.Contains(lines.Text(), started) {
			serving = true
			if err := command.Process.Signal(syscall.SIGTERM); err != nil {
				return fmt.Errorf("asking the broker to end: %w", err)
			}
		}
	}
	const endedBySignal = 128 + int(syscall.SIGTERM)
	err = command.Wait()
	if serving && (err == nil || command.ProcessState.ExitCode() == endedBySignal) {
		return nil
	}
	return fmt.Errorf("%w: %s", errors.Join(errors.New("the broker did not serve"), err), strings.Join(last, "\n"))
}

// writeTraining writes the settings of a node that uses what the product's nodes use: TLS with PEM stores on both
// listeners, both roles, the authorizer. Its key is thrown away with the folder.
func writeTraining(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	certificate, key, err := trainingIdentity(time.Now())
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"server.properties": trainingSettings,
		"keystore.pem":      key + certificate,
		"truststore.pem":    certificate,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func trainingIdentity(now time.Time) (certificate, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "training"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})), nil
}
