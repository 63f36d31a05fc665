package org.terracedb.suites;

import java.io.File;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.util.kvstore.KVIndex;
import org.apache.spark.util.kvstore.KVStoreIterator;
import org.apache.spark.util.kvstore.LevelDB;

/** Keeps the jobs of an application in Spark's store, as the history server does. */
public final class SparkProgram {
    private SparkProgram() {}

    /** Job with two secondary indexes. */
    public static final class Job {
        @KVIndex public int id;

        @KVIndex("stage")
        public String stage;

        @KVIndex("duration")
        public long duration;

        public Job() {}

        Job(int id, int turn) {
            this.id = id;
            this.stage = "stage " + id % 7;
            this.duration = (id * 31L + turn) % 101;
        }

        @Override
        public String toString() {
            return id + "/" + duration;
        }
    }

    public static void main(String[] arguments) throws Exception {
        File directory = new File(arguments[0]);
        int turn = Integer.parseInt(arguments[1]);
        Library.check(Boolean.parseBoolean(arguments[2]));
        try (LevelDB store = new LevelDB(directory)) {
            for (int id = turn * 20; id < turn * 20 + 60; id++) {
                store.write(new Job(id, turn));
            }
            for (int id = turn * 20; id < turn * 20 + 60; id += 9) {
                store.delete(Job.class, id);
            }
            store.setMetadata("turn " + turn);
            System.out.println(store.getMetadata(String.class) + " " + store.count(Job.class));
            System.out.println(store.count(Job.class, "stage", "stage 3"));
            System.out.println(jobs(store, "duration", 40L, false));
            System.out.println(jobs(store, "stage", "stage 2", true));
            System.out.println(store.read(Job.class, turn * 20 + 1));
        }
    }

    private static List<String> jobs(LevelDB store, String index, Object first, boolean reverse)
            throws Exception {
        List<String> jobs = new ArrayList<>();
        var view = store.view(Job.class).index(index).first(first).max(15);
        try (KVStoreIterator<Job> iterator =
                (reverse ? view.reverse() : view).closeableIterator()) {
            while (iterator.hasNext()) {
                jobs.add(iterator.next().toString());
            }
        }
        return jobs;
    }
}
