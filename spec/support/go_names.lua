--- The exported names of the five Go packages in doc/coming-from-go.md, sorted: types, functions, methods (TYPE.METHOD),
-- constants, variables, and the fields of the structs for configuration and counts.
return {
  ["elastic/go-perf"] = [[
    Access AlignmentFaults AllCacheOpResults AllCacheOps AllCaches AllHardwareCounters AllSoftwareCounters AllThreads
    AnyCPU Attr Attr.AuxWatermark Attr.BranchSampleFormat Attr.BreakpointType Attr.ClockID Attr.Config Attr.Config1
    Attr.Config2 Attr.Configure Attr.CountFormat Attr.Label Attr.Options Attr.Sample Attr.SampleFormat
    Attr.SampleMaxStack Attr.SampleRegistersIntr Attr.SampleRegistersUser Attr.SampleStackUser Attr.SetSampleFreq
    Attr.SetSamplePeriod Attr.SetWakeupEvents Attr.SetWakeupWatermark Attr.Type Attr.Wakeup AuxCollision AuxFlag
    AuxOverwrite AuxPartial AuxRecord AuxRecord.DecodeFrom AuxTruncated BPFOutput BPU BranchEntry BranchInstructions
    BranchMisses BranchPrivilegeHypervisor BranchPrivilegeKernel BranchPrivilegeUser BranchSample
    BranchSampleAbortTransaction BranchSampleAny BranchSampleAnyCall BranchSampleAnyReturn BranchSampleCall
    BranchSampleCallStack BranchSampleCond BranchSampleFormat BranchSampleFormat.Privilege BranchSampleFormat.Sample
    BranchSampleInTransaction BranchSampleIndirectCall BranchSampleIndirectJump BranchSampleNoCycles
    BranchSampleNoFlags BranchSampleNoTransaction BranchSamplePrivilege BranchSampleSave BranchType BranchTypeCall
    BranchTypeConditional BranchTypeConditionalCall BranchTypeConditionalReturn BranchTypeIndirect
    BranchTypeIndirectCall BranchTypeReturn BranchTypeSyscall BranchTypeSyscallReturn BranchTypeUnconditional
    BranchTypeUnknown Breakpoint BreakpointEvent BreakpointLength BreakpointLength1 BreakpointLength2
    BreakpointLength4 BreakpointLength8 BreakpointType BreakpointTypeEmpty BreakpointTypeR BreakpointTypeRW
    BreakpointTypeW BreakpointTypeX BusCycles CPUClock CPUCycles CPUMigrations CPUMode Cache CacheMisses CacheOp
    CacheOpResult CacheReferences CallingThread CanHaveArbitrarySkid CommRecord CommRecord.DecodeFrom
    CommRecord.WasExec Configurator Configurator.Configure ContextSwitches Count Count.Enabled Count.ID Count.Label
    Count.Running Count.String Count.Value CountFormat CountFormat.Enabled CountFormat.Group CountFormat.ID
    CountFormat.Running DTLB DataSource DataSource.MemLevel DataSource.MemLevelNumber DataSource.MemLock
    DataSource.MemOp DataSource.MemRemote DataSource.MemSnoopMode DataSource.MemSnoopModeX DataSource.MemTLB
    DefaultNumPages Dummy EmulationFaults ErrBadRecord ErrDisabled ErrNoReadRecord Event Event.Close Event.Disable
    Event.Enable Event.FD Event.HasRecord Event.ID Event.MapRing Event.MapRingNumPages Event.Measure
    Event.MeasureGroup Event.PauseOutput Event.QueryBPF Event.ReadCount Event.ReadGroupCount Event.ReadRawRecord
    Event.ReadRecord Event.Refresh Event.Reset Event.ResumeOutput Event.SetBPF Event.SetOutput Event.UpdatePeriod
    EventType ExecutionBreakpoint ExecutionBreakpointLength ExitRecord ExitRecord.DecodeFrom ForkRecord
    ForkRecord.DecodeFrom Group Group.Add Group.ClockID Group.CountFormat Group.Open Group.Options GroupCount
    GroupCount.Enabled GroupCount.PrintValues GroupCount.Running GroupCount.Values GuestKernelMode GuestUserMode
    HardwareCacheCounter HardwareCacheCounter.Cache HardwareCacheCounter.Configure HardwareCacheCounter.Op
    HardwareCacheCounter.Result HardwareCacheCounters HardwareCacheEvent HardwareCounter HardwareCounter.Configure
    HardwareCounter.String HardwareEvent HypervisorMode ITLB Instructions ItraceStartRecord
    ItraceStartRecord.DecodeFrom KSymbolRecord KSymbolRecord.DecodeFrom KernelMode L1D L1I LL LookupEventType
    LookupTracepointConfig LostRecord LostRecord.DecodeFrom LostSamplesRecord LostSamplesRecord.DecodeFrom
    MajorPageFaults MaxStack MemLevel MemLevelHit MemLevelIO MemLevelL1 MemLevelL2 MemLevelL3 MemLevelLFB
    MemLevelLocalDRAM MemLevelMiss MemLevelNA MemLevelNumber MemLevelNumberAnyCache MemLevelNumberL1 MemLevelNumberL2
    MemLevelNumberL3 MemLevelNumberL4 MemLevelNumberLFB MemLevelNumberNA MemLevelNumberPMem MemLevelNumberRAM
    MemLevelRemoteCache1 MemLevelRemoteCache2 MemLevelRemoteDRAM1 MemLevelRemoteDRAM2 MemLevelUncached MemLock
    MemLockLocked MemLockNA MemOp MemOpExec MemOpLoad MemOpNA MemOpPrefetch MemOpStore MemRemote MemRemoteRemote
    MemSnoopMode MemSnoopModeHit MemSnoopModeHitModified MemSnoopModeMiss MemSnoopModeNA MemSnoopModeNone
    MemSnoopModeX MemSnoopModeXForward MemTLB MemTLBHit MemTLBL1 MemTLBL2 MemTLBMiss MemTLBNA MemTLBOS MemTLBWK
    MinorPageFaults Miss Mmap2Record Mmap2Record.DecodeFrom Mmap2Record.Executable MmapRecord MmapRecord.DecodeFrom
    MmapRecord.Executable MustHaveConstantSkid MustHaveZeroSkid NODE NamespacesRecord NamespacesRecord.DecodeFrom Open
    OpenCGroup OpenWithFlags Options Options.Comm Options.CommExec Options.ContextSwitch Options.Disabled
    Options.EnableOnExec Options.ExcludeGuest Options.ExcludeHost Options.ExcludeHypervisor Options.ExcludeIdle
    Options.ExcludeKernel Options.ExcludeKernelCallchain Options.ExcludeUser Options.ExcludeUserCallchain
    Options.Exclusive Options.Freq Options.Inherit Options.InheritStat Options.KSymbol Options.Mmap Options.Mmap2
    Options.MmapData Options.Namespaces Options.Pinned Options.PreciseIP Options.SampleIDAll Options.Task
    Options.UseClockID Options.Watermark PageFaults Prefetch RawEvent RawRecord Read ReadGroupRecord
    ReadGroupRecord.DecodeFrom ReadRecord ReadRecord.DecodeFrom Record Record.DecodeFrom Record.Header RecordHeader
    RecordHeader.CPUMode RecordHeader.Header RecordType RecordTypeAux RecordTypeComm RecordTypeExit RecordTypeFork
    RecordTypeItraceStart RecordTypeKSymbol RecordTypeLost RecordTypeLostSamples RecordTypeMmap RecordTypeMmap2
    RecordTypeNamespaces RecordTypeRead RecordTypeSample RecordTypeSwitch RecordTypeSwitchCPUWide RecordTypeThrottle
    RecordTypeUnthrottle RefCPUCycles RequestedZeroSkid SampleFormat SampleFormat.Addr SampleFormat.BranchStack
    SampleFormat.CPU SampleFormat.Callchain SampleFormat.Count SampleFormat.DataSource SampleFormat.ID SampleFormat.IP
    SampleFormat.Identifier SampleFormat.IntrRegisters SampleFormat.Period SampleFormat.PhysicalAddress
    SampleFormat.Raw SampleFormat.StreamID SampleFormat.Tid SampleFormat.Time SampleFormat.Transaction
    SampleFormat.UserRegisters SampleFormat.UserStack SampleFormat.Weight SampleGroupRecord
    SampleGroupRecord.DecodeFrom SampleGroupRecord.ExactIP SampleID SampleRecord SampleRecord.DecodeFrom
    SampleRecord.ExactIP Skid SoftwareCounter SoftwareCounter.Configure SoftwareCounter.String SoftwareEvent
    StalledCyclesBackend StalledCyclesFrontend Supported SwitchCPUWideRecord SwitchCPUWideRecord.DecodeFrom
    SwitchCPUWideRecord.Out SwitchCPUWideRecord.Preempted SwitchRecord SwitchRecord.DecodeFrom SwitchRecord.Out
    SwitchRecord.Preempted TaskClock ThrottleRecord ThrottleRecord.DecodeFrom Tracepoint TracepointEvent Transaction
    Transaction.UserAbortCode TransactionAsync TransactionConflict TransactionElision TransactionGeneric
    TransactionReadCapacity TransactionRetryable TransactionSync TransactionWriteCapacity UnknownMode UnthrottleRecord
    UnthrottleRecord.DecodeFrom UserMode Write
  ]],
  ["hodgesds/perf-utils"] = [[
    AlignFaultProfiler AlignmentFaults AlignmentFaultsEventAttr AllCacheProfilers AllHardwareProfilers
    AllSoftwareProfilers AvailableEvents AvailablePMUs AvailableSubsystems AvailableTracers BPFProfiler
    BPFProfiler.AttachBPF BPU BPUEventAttr BPUReadHit BPUReadHitProfiler BPUReadMiss BPUReadMissProfiler BenchLock
    BenchOpt BenchStrict BenchmarkTracepoints BranchInstrProfiler BranchMissesProfiler BusCycles BusCyclesEventAttr
    BusCyclesProfiler CPUClock CPUClockEventAttr CPUCycles CPUCyclesEventAttr CPUInstructions CPUInstructionsEventAttr
    CPUMigrations CPUMigrationsEventAttr CPURefCycles CPURefCyclesEventAttr CPUTaskClock CPUTaskClockEventAttr
    CacheMiss CacheMissEventAttr CacheMissesProfiler CacheProfile CacheProfile.Reset CacheProfiler CacheProfiler.Close
    CacheProfiler.HasProfilers CacheProfiler.Profile CacheProfiler.Reset CacheProfiler.Start CacheProfiler.Stop
    CacheProfilerType CacheRef CacheRefEventAttr CacheRefProfiler ContextSwitchProfiler ContextSwitches
    ContextSwitchesEventAttr CpuClockProfiler CpuCyclesProfiler CpuInstrProfiler CpuMigrationProfiler CurrentTracer
    DataTLB DataTLBEventAttr DataTLBReadHit DataTLBReadHitProfiler DataTLBReadMiss DataTLBReadMissProfiler
    DataTLBWriteHit DataTLBWriteHitProfiler DataTLBWriteMiss DataTLBWriteMissProfiler DebugFS DebugFSMount
    EmuFaultProfiler EmulationFaults EmulationFaultsEventAttr ErrNoLeader ErrNoMount ErrNoProfiler EventAttrSize
    EventAttrString GetFSMount GetTracepointConfig GroupProfileValue GroupProfileValue.Events
    GroupProfileValue.TimeEnabled GroupProfileValue.TimeRunning GroupProfileValue.Values GroupProfiler
    GroupProfiler.Close GroupProfiler.HasProfilers GroupProfiler.Profile GroupProfiler.Reset GroupProfiler.Start
    GroupProfiler.Stop HardwareProfile HardwareProfile.Reset HardwareProfiler HardwareProfiler.Close
    HardwareProfiler.HasProfilers HardwareProfiler.Profile HardwareProfiler.Reset HardwareProfiler.Start
    HardwareProfiler.Stop HardwareProfilerType InstrTLBReadHit InstrTLBReadHitProfiler InstrTLBReadMiss
    InstrTLBReadMissProfiler InstructionTLB InstructionTLBEventAttr L1Data L1DataEventAttr L1DataReadHit
    L1DataReadHitProfiler L1DataReadMiss L1DataReadMissProfiler L1DataWriteHit L1DataWriteHitProfiler L1InstrReadHit
    L1InstrReadHitProfiler L1InstrReadMiss L1InstrReadMissProfiler L1Instructions L1InstructionsEventAttr LLCache
    LLCacheEventAttr LLReadHit LLReadHitProfiler LLReadMiss LLReadMissProfiler LLWriteHit LLWriteHitProfiler
    LLWriteMiss LLWriteMissProfiler LockThread MSR MSR.Close MSR.Read MSRBaseDir MSRPaths MSRs MajorFaultProfiler
    MajorPageFaults MajorPageFaultsEventAttr MaxOpenFiles MinorFaultProfiler MinorPageFaults MinorPageFaultsEventAttr
    NewAlignFaultsProfiler NewBPUProfiler NewBranchInstrProfiler NewBranchMissesProfiler NewBusCyclesProfiler
    NewCPUClockProfiler NewCPUCycleProfiler NewCPUMigrationsProfiler NewCacheMissesProfiler NewCacheProfiler
    NewCacheRefProfiler NewCtxSwitchesProfiler NewDataTLBProfiler NewEmulationFaultsProfiler NewGroupProfiler
    NewHardwareProfiler NewInstrProfiler NewInstrTLBProfiler NewL1DataProfiler NewL1InstrProfiler NewLLCacheProfiler
    NewMSR NewMajorFaultsProfiler NewMinorFaultsProfiler NewNodeCacheProfiler NewPageFaultProfiler NewProfiler
    NewRefCPUCyclesProfiler NewSoftwareProfiler NewStalledCyclesBackProfiler NewStalledCyclesFrontProfiler
    NewTaskClockProfiler NodeCache NodeCacheEventAttr NodeCacheReadHit NodeCacheReadHitProfiler NodeCacheReadMiss
    NodeCacheReadMissProfiler NodeCacheWriteHit NodeCacheWriteHitProfiler NodeCacheWriteMiss
    NodeCacheWriteMissProfiler PERF_IOC_FLAG_GROUP PERF_SAMPLE_IDENTIFIER PERF_TYPE_TRACEPOINT PMUEventBaseDir
    PageFaultProfiler PageFaults PageFaultsEventAttr PerfMaxContexts PerfMaxStack ProcMounts ProfileTracepoint
    ProfileValue ProfileValue.TimeEnabled ProfileValue.TimeRunning ProfileValue.Value ProfileValuePool Profiler
    Profiler.Close Profiler.Profile Profiler.Reset Profiler.Start Profiler.Stop RefCpuCyclesProfiler RunBenchmarks
    SoftwareProfile SoftwareProfile.Reset SoftwareProfiler SoftwareProfiler.Close SoftwareProfiler.HasProfilers
    SoftwareProfiler.Profile SoftwareProfiler.Reset SoftwareProfiler.Start SoftwareProfiler.Stop SoftwareProfilerType
    StalledBackendCycles StalledBackendCyclesEventAttr StalledCyclesBackendProfiler StalledCyclesFrontendProfiler
    StalledFrontendCycles StalledFrontendCyclesEventAttr SyscallsDir TaskClockProfiler TraceFS TraceFSMount
    TracepointEventAttr TracingDir
  ]],
  ["opentracing-contrib/perfevents"] = [[
    COMM COMM_EXEC CONTEXT_SWITCH DISABLED ENABLE_ON_EXEC EXCLUDE_CALLCHAIN_KERNEL EXCLUDE_CALLCHAIN_USER
    EXCLUDE_GUEST EXCLUDE_HOST EXCLUDE_HV EXCLUDE_IDLE EXCLUDE_KERNEL EXCLUDE_USER EXCLUSIVE EventConfigType
    EventsDisableClose EventsRead FREQ FormatDataToString INHERIT INHERIT_STAT InitOpenEventsEnableSelf MMAP MMAP2
    MMAP_DATA NewObserver NewSpanObserver Observer Observer.OnStartSpan PERF_HW_BRANCH_INSTRUCTIONS
    PERF_HW_BRANCH_MISSES PERF_HW_BUS_CYCLES PERF_HW_CACHE_MISSES PERF_HW_CACHE_REF PERF_HW_CPU_CYCLES
    PERF_HW_INSTRUCTIONS PERF_IOC_DISABLE_PPC PERF_IOC_DISABLE_X86 PERF_IOC_ENABLE_PPC PERF_IOC_ENABLE_X86
    PERF_IOC_RESET_PPC PERF_IOC_RESET_X86 PERF_TYPE_HARDWARE PERF_TYPE_SOFTWARE PINNED PRECISE_IP1 PRECISE_IP2
    PerfCloseError PerfEventAttr PerfEventInfo PerfEventInfo.Data PerfEventInfo.DisableClose
    PerfEventInfo.DisableEvent PerfEventInfo.EnableEvent PerfEventInfo.EventName PerfEventInfo.Fd
    PerfEventInfo.FetchPerfEventAttr PerfEventInfo.IOCOps PerfEventInfo.InitIOCOps PerfEventInfo.InitOpenEventEnable
    PerfEventInfo.InitOpenEventEnableSelf PerfEventInfo.OpenEvent PerfEventInfo.ReadEvent PerfEventInfo.ResetEvent
    PerfFdError PerfIOCError PerfIOCOps PerfOpenError PerfReadError PerfTooManyEvents PerfUnsupportedEvent RESERVED_1
    SAMPLE_ID_ALL SpanObserver SpanObserver.EventDescs SpanObserver.OnFinish SpanObserver.OnSetOperationName
    SpanObserver.OnSetTag TASK USE_CLOCKID WATERMARK
  ]],
  ["perf-agent's internal/perfevent"] = [[
    EventSpec EventSpec.Config EventSpec.Frequency EventSpec.SamplePeriod EventSpec.String EventSpec.Type OpenAll
    Option PerfCountHWCPUCycles PerfCountSWCPUClock PerfTypeHardware PerfTypeSoftware ProbeHardwareCycles Set
    Set.Close Set.FDs WithDeferredEnable
  ]],
  ["hodgesds/opentelemetry-perf"] = [[
    EventAttrConfig EventAttrConfig.EventAttr EventAttrConfig.SpanKey HardwareProfiler HardwareProfiler.Profile
    HardwareProfilerBuilder HardwareProfilerBuilder.Build NewHardwareProfilerBuilder NewPerfProfilerBuilder
    NewPoolManager NoopProfiler NoopProfiler.Profile NoopProfilerBuilder NoopProfilerBuilder.Build PerfProfiler
    PerfProfiler.Profile PerfProfilerBuilder PerfProfilerBuilder.Build PoolManager PoolManager.Pool PoolManager.Start
    PoolManager.Stop Poolable Profiler Profiler.Profile ProfilerBuilder ProfilerBuilder.Build WithProfilerBuilder
    WithTracer
  ]],
}
