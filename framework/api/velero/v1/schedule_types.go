package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Schedule creates Backups from a template at the times of a cron expression.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=sched
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.phase",description="State of the schedule"
// +kubebuilder:printcolumn:name="Schedule",type="string",JSONPath=".spec.schedule",description="Cron expression of the backup times"
// +kubebuilder:printcolumn:name="LastBackup",type="date",JSONPath=".status.lastBackup",description="When the schedule last created a backup"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Paused",type="boolean",JSONPath=".spec.paused",description="Whether the schedule is paused"
type Schedule struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec defines when backups are created and what they contain.
	// +optional
	Spec ScheduleSpec `json:"spec,omitempty"`

	// Status is written by the server.
	// +optional
	Status ScheduleStatus `json:"status,omitempty"`
}

// ScheduleList is a list of Schedules.
//
// +kubebuilder:object:root=true
type ScheduleList struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the schedules of the list.
	Items []Schedule `json:"items"`
}

// ScheduleSpec defines when backups are created and what they contain.
type ScheduleSpec struct {
	// Template is the spec of the backups that the schedule creates.
	Template BackupSpec `json:"template"`

	// Schedule is a cron expression of five fields, or a descriptor such as @daily or "@every 1h",
	// with an optional TZ= or CRON_TZ= prefix. Without a prefix, times are in the server's time zone.
	Schedule string `json:"schedule"`

	// UseOwnerReferencesInBackup specifies whether the schedule owns its Backup objects, so that they
	// are deleted with it. Absent means false.
	// +optional
	// +nullable
	UseOwnerReferencesInBackup *bool `json:"useOwnerReferencesInBackup,omitempty"`

	// Paused specifies whether the schedule is paused, so that it creates no backups.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// SkipImmediately specifies whether to skip a backup that is due when the schedule is created or
	// unpaused. Absent means the server's setting. The server sets it to false after it has applied
	// it.
	// +optional
	SkipImmediately *bool `json:"skipImmediately,omitempty"`
}

// ScheduleStatus is the state of a schedule.
type ScheduleStatus struct {
	// Phase is the state of the schedule. Empty means New.
	// +optional
	Phase SchedulePhase `json:"phase,omitempty"`

	// LastBackup is when the schedule last created a backup.
	// +optional
	// +nullable
	LastBackup *metav1.Time `json:"lastBackup,omitempty"`

	// LastSkipped is when the schedule last skipped a backup that was due.
	// +optional
	// +nullable
	LastSkipped *metav1.Time `json:"lastSkipped,omitempty"`

	// ValidationErrors are the reasons why the spec is not valid.
	// +optional
	ValidationErrors []string `json:"validationErrors,omitempty"`
}

// SchedulePhase is the state of a Schedule. The empty phase is the same as New.
//
// +kubebuilder:validation:Enum=New;Enabled;FailedValidation
type SchedulePhase string

const (
	// SchedulePhaseNew is a schedule that no controller has processed.
	SchedulePhaseNew SchedulePhase = "New"

	// SchedulePhaseEnabled is a schedule that creates backups, unless it is paused.
	SchedulePhaseEnabled SchedulePhase = "Enabled"

	// SchedulePhaseFailedValidation is a schedule whose spec is not valid because of
	// status.validationErrors.
	SchedulePhaseFailedValidation SchedulePhase = "FailedValidation"
)
