// Command uploader does what Velero does with a repository of kopia, by Velero's own library:
//
//	uploader create|maintain|list REPOSITORY STATE
//	uploader backup|restore|forget REPOSITORY STATE VOLUME|- [SNAPSHOT]
//
// REPOSITORY is a directory, or http://KEY:SECRET@HOST/BUCKET/PREFIX/ in S3. STATE is a directory for its config and
// cache. backup prints the id of the snapshot, and list those of all snapshots.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kopia/kopia/snapshot/upload"
	"github.com/sirupsen/logrus"
	"github.com/vmware-tanzu/velero/pkg/repository/udmrepo"
	"github.com/vmware-tanzu/velero/pkg/repository/udmrepo/kopialib"
	"github.com/vmware-tanzu/velero/pkg/uploader"
	"github.com/vmware-tanzu/velero/pkg/uploader/kopia"
)

const (
	password  = "static-passw0rd"
	requester = "snapshot-pod-volume"
	source    = requester + "/kopia/shop/web-0/data-web-0"
)

func main() {
	args := append(os.Args[1:], "", "", "", "", "")
	if err := run(context.Background(), args[0], args[1], args[2], args[3], args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "uploader:", err)
		os.Exit(1)
	}
}

// silent takes the progress of Velero.
type silent struct{}

func (silent) UpdateProgress(*uploader.Progress) {}

func run(ctx context.Context, action, repository, state, volume, snapshot string) error {
	log := logrus.New()
	options := udmrepo.RepoOptions{
		RepoPassword: password, Description: "test", ConfigFilePath: filepath.Join(state, "config"),
		GeneralOptions: map[string]string{udmrepo.GenOptionOwnerName: udmrepo.GetRepoUser(),
			udmrepo.GenOptionOwnerDomain: udmrepo.GetRepoDomain()},
	}
	var err error
	if options.StorageType, options.StorageOptions, err = storage(repository); err != nil {
		return err
	}
	options.StorageOptions[udmrepo.StoreOptionCacheDir] = filepath.Join(state, "cache")
	service := kopialib.NewKopiaRepoService(log)
	if action == "create" {
		return service.Create(ctx, options)
	}
	ready, err := service.IsReady(ctx, options, false)
	if err == nil && !ready {
		err = errors.New("the repository is not one that Velero has completed")
	}
	if err == nil {
		err = service.Connect(ctx, options)
	}
	if err != nil {
		return err
	}
	if action == "maintain" {
		options.GeneralOptions[udmrepo.GenOptionMaintainMode] = udmrepo.GenOptionMaintainFull
		return service.Maintain(ctx, options)
	}
	opened, err := service.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close(ctx) }()
	writer := kopia.NewShimRepo(opened)
	progress := kopia.NewProgress(silent{}, time.Second, log)
	switch action {
	case "backup":
		up := upload.NewUploader(writer)
		up.Progress, up.FailFast = progress, true
		stored, _, err := kopia.Backup(ctx, up, writer, volume, source, false, "", uploader.PersistentVolumeFilesystem,
			map[string]string{kopia.UploaderConfigMultipartKey: "true"},
			map[string]string{uploader.SnapshotRequesterTag: requester, uploader.SnapshotUploaderTag: uploader.KopiaType}, log)
		if err == nil {
			fmt.Println(stored.ID)
		}
		return err
	case "restore":
		_, _, err := kopia.Restore(ctx, writer, progress, snapshot, volume, uploader.PersistentVolumeFilesystem, nil, log,
			make(chan struct{}))
		return err
	case "list":
		found, err := opened.FindManifests(ctx, udmrepo.ManifestFilter{Labels: map[string]string{"type": "snapshot"}})
		for _, snapshot := range found {
			fmt.Println(snapshot.ID)
		}
		return err
	case "forget":
		return errors.Join(opened.DeleteManifest(ctx, udmrepo.ID(snapshot)), opened.Flush(ctx))
	}
	return fmt.Errorf("there is no action %q", action)
}

// storage returns the type of the storage of a repository, and its options.
func storage(repository string) (string, map[string]string, error) {
	at, err := url.Parse(repository)
	if err != nil || at.Scheme == "" {
		return udmrepo.StorageTypeFs, map[string]string{udmrepo.StoreOptionFsPath: repository}, err
	}
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(at.Path, "/"), "/")
	secret, _ := at.User.Password()
	return udmrepo.StorageTypeS3, map[string]string{
		udmrepo.StoreOptionOssBucket: bucket, udmrepo.StoreOptionPrefix: prefix, udmrepo.StoreOptionS3Endpoint: at.Host,
		udmrepo.StoreOptionOssRegion:    "us-east-1",
		udmrepo.StoreOptionS3DisableTLS: strconv.FormatBool(at.Scheme == "http"),
		udmrepo.StoreOptionS3KeyID:      at.User.Username(), udmrepo.StoreOptionS3SecretKey: secret,
	}, nil
}
